package orders

import (
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/gate"
	"github.com/easel-grpc/easel/internal/ledger"
)

// errClaimAges ends a wait at the gate for a moment, in which the claim is renewed.
var errClaimAges = errors.New("the claim has to be renewed")

// enter waits for a turn of the order at the gate, as long as an attempt may begin, and keeps the claim meanwhile.
func (s *submission) enter(ctx context.Context) (*gate.Turn, error) {
	for {
		if err := s.over(); err != nil {
			return nil, err
		}
		waiting, cancel := s.waitAtGate(ctx)
		turn, err := s.orders.Catalog.Enter(waiting, s.cred, s.came)
		ages := errors.Is(context.Cause(waiting), errClaimAges)
		cancel(nil)
		switch {
		case err == nil || !ages && !s.lasts(waiting):
			return turn, err
		case ages:
			if err := s.renew(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// lasts reports whether a caller has come since a wait began that waits longer.
func (s *submission) lasts(waiting context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline, _ := waiting.Deadline()
	return s.until.After(deadline)
}

// waitAtGate is the context of a wait at the gate: until the callers' time is over, the last of them leaves an order that
// was never sent, no attempt may begin any more, or the claim has to be renewed.
func (s *submission) waitAtGate(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.came.IsZero() {
		s.came = time.Now()
	}
	timed, done := context.WithDeadline(ctx, s.until)
	waiting, cancel := context.WithCancelCause(timed)
	s.atGate = cancel
	stopped := context.AfterFunc(s.orders.stopping, func() { cancel(context.Canceled) })
	ages := time.AfterFunc(ledger.ClaimTime/2, func() { cancel(errClaimAges) })
	return waiting, func(cause error) {
		cancel(cause)
		done()
		stopped()
		ages.Stop()
	}
}

// over says why no further attempt may begin: the time of all callers is over, or nobody waits for an order that was
// never sent.
func (s *submission) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Now().Before(s.until) && (s.waiting > 0 || s.mayExist) && s.orders.stopping.Err() == nil:
		return nil
	case s.last != nil:
		return s.last
	}
	return unknown(nil)
}

// begin begins an attempt, unless none may begin.
func (s *submission) begin() error {
	err := s.over()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 && !s.mayExist && err == nil { // the last has left just now
		err = unknown(nil)
	}
	if s.atGate = nil; err == nil {
		s.last = nil
	}
	return err
}

// renew renews the claim, unless it is lost.
func (s *submission) renew(ctx context.Context) error {
	asked := time.Now() // before the claim begins
	may, left, err := s.orders.Ledger.Renew(ctx, s.order.ID, s.order.Claims, s.order.APIKey)
	if err != nil {
		return inDoubt(err)
	}
	s.leaveBy = asked.Add(left)
	s.debug(ctx, "a claim of an order is renewed", "granted", may)
	if s.lost = !may; s.lost {
		return errClaimLost
	}
	return nil
}

// errClaimLost means that somebody else has the claim.
var errClaimLost = errors.New("somebody else has the claim")
