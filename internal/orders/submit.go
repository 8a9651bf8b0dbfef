package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/gate"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	submitTime    = time.Minute            // for callers without a deadline, and at most for callers that have gone
	submitBackoff = 200 * time.Millisecond // before the second attempt; doubles
	submitPause   = 5 * time.Second        // longest back-off of our own
	refusalPause  = 10 * time.Second       // before an order of unknown outcome is sent again after a refusal
	recordPause   = 50 * time.Millisecond  // before an outcome is recorded again that the ledger has refused; doubles
	lookAgain     = 100 * time.Millisecond // before a caller that wants to hear of a failed attempt looks for one again
	recordWithin  = ledger.ClaimTime - ledger.AnswerTime
)

// submission sends an order under a claim: of a call, or of the recovery. It outlives the call that began it, and calls
// with the same idempotency key wait for it too.
type submission struct {
	orders  *Orders
	cred    catalog.Credential // of every attempt
	order   ledger.Order       // with its inputs; with its labels only where it was written for this submission
	placed  time.Time          // when the order was written down
	leaveBy time.Time          // an attempt under the claim leaves by then

	mayExist bool // an attempt may have been taken, of this submission or before it
	sent     bool // one of this submission has reached the catalog

	came time.Time // to the gate, for the first time

	mu      sync.Mutex
	atGate  context.CancelCauseFunc // ends the wait at the gate; nil: it does not wait there
	waiting int                     // callers
	until   time.Time               // the latest deadline of its callers, whether they still wait or not
	last    error                   // of the last attempt; nil while one is in flight

	// Set before ended is closed:
	ended      chan struct{}
	generation catalog.Generation
	refused    bool // for certain: the idempotency key is free again
	lost       bool // somebody else has the claim
	err        error
}

// submission is one of an order whose claim was taken after a time, for a caller that waits until ctx ends.
func (o *Orders) submission(ctx context.Context, cred catalog.Credential, order ledger.Order, claimed time.Time) *submission {
	return &submission{
		orders: o, cred: cred, order: order, placed: claimed.Add(-order.Age), leaveBy: claimed.Add(o.Ledger.Sendable(order)), mayExist: order.Claims > 1,
		waiting: 1, until: answerBy(ctx), ended: make(chan struct{}),
	}
}

// start sends an order beside its callers.
func (o *Orders) start(ctx context.Context, s *submission, release func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx = ledger.WithOwner(ctx, s.order.Owner)
	o.submissions[s.order.ID] = s
	o.work.Go(func() {
		defer release()
		o.submit(ctx, s)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.submissions[s.order.ID] == s { // else a later claim has another
			delete(o.submissions, s.order.ID)
		}
		close(s.ended)
	})
}

// joined is the submission of an order in this process, for which one more caller waits; nil where there is none.
func (o *Orders) joined(orderID string, until time.Time) *submission {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.submissions[orderID]
	if s != nil {
		s.join(until)
	}
	return s
}

// submit sends an order again and again: wait for a turn, renew the claim, post once, write down what has happened, until
// the order has an outcome, the claim is lost, or the time of all who wait is over.
func (o *Orders) submit(ctx context.Context, s *submission) {
	s.debug(ctx, "an order is claimed", "claims", s.order.Claims)
	for attempt := 0; ; attempt++ {
		turn, err := s.enter(ctx)
		if err == nil && attempt > 0 {
			err = s.renew(ctx)
		}
		if err == nil && !turn.Holds() { // a pause has begun while the claim was renewed
			s.came = turn.Came // it keeps its place in line
			turn.End(gate.Answer{Outcome: gate.Unused})
			attempt--
			continue
		}
		if err == nil {
			err = s.begin()
		}
		if err != nil {
			turn.End(gate.Answer{Outcome: gate.Unused})
			if !s.lost {
				s.conclude(ctx, catalog.Generation{}, err)
			}
			return
		}
		s.came = turn.Came
		g, posted, err := o.Catalog.Post(ctx, s.cred, catalog.Order{
			ModelID: s.order.ModelID, Inputs: json.RawMessage(s.order.Inputs), IdempotencyKey: s.order.UpstreamKey, LeaveBy: s.leaveBy, Attempt: attempt + 1, Turn: turn,
		})
		s.logAttempt(ctx, attempt+1, g, err)
		if again := s.note(posted, err); !again {
			s.conclude(ctx, g, err)
			return
		}
		if catalog.KindOf(err) != catalog.KindRateLimited { // else the gate makes it wait
			s.pause(o.backoff(attempt, err))
		}
	}
}

// note notes what has become of an attempt, and reports whether another one may make the outcome certain.
func (s *submission) note(posted catalog.Posted, err error) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = s.sent || posted != catalog.NotSent
	s.mayExist = s.mayExist || posted == catalog.Unknown
	s.last = s.withheld(err)
	switch catalog.KindOf(err) {
	case catalog.KindOutcomeUnknown, catalog.KindInProgress, catalog.KindBusy, catalog.KindRateLimited:
		return true
	}
	return false
}

// withheld turns a refusal into an unknown outcome while an attempt may have been taken: a caller that believed it would
// order again under a new idempotency key.
func (s *submission) withheld(err error) error {
	if err == nil || !s.mayExist || leavesOpen[catalog.KindOf(err)] {
		return err
	}
	said, ok := errors.AsType[*catalog.Error](err)
	if !ok {
		return unknown(err)
	}
	open := outcomeUnknown(said, err)
	open.RetryAfter = max(said.RetryAfter, refusalPause)
	return open
}

// backoff is the wait before the next attempt: as long as the catalog asks, or a doubling time of our own.
func (o *Orders) backoff(attempt int, err error) time.Duration {
	d := min(submitBackoff<<min(attempt, 10), submitPause)
	d = d/2 + o.Catalog.Jitter(d/2)
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		d = max(d, e.RetryAfter)
	}
	return d
}

// pause waits, but not beyond the deadlines of the callers. A new caller may extend them meanwhile.
func (s *submission) pause(d time.Duration) {
	for due := time.Now().Add(d); ; {
		s.mu.Lock()
		end := s.until
		s.mu.Unlock()
		now := time.Now()
		if !now.Before(due) || !now.Before(end) || !sleep(s.orders.stopping, min(due.Sub(now), end.Sub(now))) {
			return
		}
	}
}

// join lets a caller wait.
func (s *submission) join(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	if until.After(s.until) {
		s.until = until
	}
}

// wait waits for the outcome until ctx ends, or where the caller wants to hear of a failed attempt after a time. It
// reports whether there is one; else err is what the caller is told.
func (s *submission) wait(ctx context.Context, failAfter time.Duration) (ended bool, err error) {
	failed := time.NewTimer(cmp.Or(failAfter, math.MaxInt64))
	defer failed.Stop()
	for {
		select {
		case <-s.ended:
			return true, nil
		case <-ctx.Done():
			return false, s.leave(context.Cause(ctx))
		case <-failed.C:
			if s.hasFailed() {
				return false, s.leave(nil)
			}
			failed.Reset(lookAgain)
		}
	}
}

// hasFailed reports whether the last attempt has failed and the next has not begun.
func (s *submission) hasFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last != nil
}

// leave stops to wait, and gives the error of the last attempt: the attempts go on, but not for so long that they pile
// up. Where none has reached the catalog, and nobody else waits, none begins any more.
func (s *submission) leave(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting == 0 {
		if end := time.Now().Add(submitTime); end.Before(s.until) {
			s.until = end
		}
	}
	last, ok := errors.AsType[*catalog.Error](s.last)
	if s.waiting == 0 && !s.sent && !s.mayExist && s.atGate != nil {
		s.atGate(context.Canceled)
		return &Error{NotPlacedByThisCall, s.orders.Catalog.NoTurn(s.cred)}
	}
	switch {
	case !ok:
		last = unknown(cause)
	case !leavesOpen[last.Kind]: // the ledger does not hold it yet
		last = outcomeUnknown(last, cause)
	}
	if ok && s.waiting == 0 && !s.sent && !s.mayExist {
		return &Error{NotPlacedByThisCall, last}
	}
	return &Error{Unknown, last}
}
