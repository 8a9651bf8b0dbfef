package orders

import (
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
)

// errClaimAges interrupts the wait for a permit, so that the claim can be renewed.
var errClaimAges = errors.New("the claim has to be renewed")

// prepare starts an attempt, and returns its permit. It returns an error if no attempt may start.
func (s *submission) prepare(ctx context.Context, attempt int) (permit *limiter.Permit, err error) {
	if err = s.over(); err == nil && attempt > 0 {
		err = s.renew(ctx)
	}
	if err == nil {
		permit, err = s.acquire(ctx)
	}
	if err == nil {
		s.begin()
	}
	return permit, err
}

// acquire waits for the permit of an attempt, and renews the claim while it waits. It returns an error as soon as no further
// attempt may start.
func (s *submission) acquire(ctx context.Context) (*limiter.Permit, error) {
	if s.arrived.IsZero() {
		s.arrived = time.Now()
	}
	for {
		if err := s.over(); err != nil {
			return nil, err
		}
		waiting, cancel := s.waits(ctx)
		permit, err := s.orders.Catalog.Acquire(waiting, s.cred, s.arrived)
		cause := context.Cause(waiting)
		cancel(nil)
		switch {
		case err == nil:
			return permit, nil
		case errors.Is(cause, errClaimAges):
			if err := s.renew(ctx); err != nil {
				return nil, err
			}
		case !errors.Is(cause, context.Canceled) && !s.lasts(waiting): // over decides about a wait that ended early
			return nil, err
		}
	}
}

// lasts reports whether a caller with a later deadline has joined since a wait started.
func (s *submission) lasts(waiting context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline, _ := waiting.Deadline()
	return s.end().After(deadline)
}

// waits returns the context of a wait between two attempts. It is done when the callers' time is over, the last caller leaves,
// no further attempt may start, or the claim has to be renewed.
func (s *submission) waits(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	timed, done := context.WithDeadline(ctx, s.end())
	waiting, cancel := context.WithCancelCause(timed)
	s.wake = cancel
	stopped := context.AfterFunc(s.orders.stopping, func() { cancel(context.Canceled) })
	ages := time.AfterFunc(ledger.ClaimTime/2, func() { cancel(errClaimAges) })
	return waiting, func(cause error) {
		cancel(cause)
		done()
		stopped()
		ages.Stop()
	}
}

// end returns the time at which the attempts end. The caller holds the lock.
func (s *submission) end() time.Time {
	if s.mayExist {
		return s.until
	}
	return s.withdrawAt
}

// over returns the reason why no further attempt may start. Either the time of all callers is over, or no caller waits for an
// order that was never accepted.
func (s *submission) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Now().Before(s.end()) && (s.waiting > 0 || s.mayExist) && s.orders.stopping.Err() == nil:
		return nil
	case s.last != nil:
		return s.last
	}
	return unknown(nil)
}

// begin records that an attempt is in flight.
func (s *submission) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake, s.last = nil, nil
}

// renew renews the claim, unless it is lost.
func (s *submission) renew(ctx context.Context) error {
	asked := time.Now() // before the claim starts
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

// errClaimLost means that another process has the claim.
var errClaimLost = errors.New("another process has the claim")
