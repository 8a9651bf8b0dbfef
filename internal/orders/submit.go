package orders

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
)

const (
	submitTime    = time.Minute            // for callers without a deadline, and at most for callers that have gone
	submitBackoff = 200 * time.Millisecond // before the second attempt; doubles
	submitPause   = 5 * time.Second        // longest back-off of our own
	refusalPause  = 10 * time.Second       // before an order of unknown outcome is sent again after a refusal
	recordPause   = 50 * time.Millisecond  // before an outcome is recorded again that the ledger has refused; doubles
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

	definite bool // the first attempt of this submission that has reached the catalog was definitely refused
	doubtful bool // one was refused by an answer that the catalog's specification does not have

	problem string    // latest recorded problem
	arrived time.Time // start of the first wait for a permit

	mu         sync.Mutex
	wake       context.CancelCauseFunc // ends the current wait; nil while an attempt is in flight
	waiting    int                     // callers
	withdrawAt time.Time               // end of an order that was not sent: early enough to record that
	until      time.Time               // the latest deadline of its callers, whether they still wait or not
	last       error                   // of the last attempt; nil while one is in flight

	// Set before ended is closed:
	ended      chan struct{}
	generation catalog.Generation
	refused    bool // for certain: the idempotency key is free again
	lost       bool // somebody else has the claim
	err        error
}

// submission is one of an order whose claim was taken after a time, for a caller that waits until ctx ends.
func (o *Orders) submission(ctx context.Context, cred catalog.Credential, order ledger.Order, claimed time.Time) *submission {
	s := &submission{
		orders: o, cred: cred, order: order, placed: claimed.Add(-order.Age), leaveBy: claimed.Add(o.Ledger.Sendable(order)), mayExist: order.Claims > 1,
		ended: make(chan struct{}),
	}
	s.join(ctx)
	return s
}

// start sends an order beside its callers.
func (o *Orders) start(ctx context.Context, s *submission) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.submissions[s.order.ID] = s
	o.work.Go(func() {
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
func (o *Orders) joined(ctx context.Context, orderID string) *submission {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.submissions[orderID]
	if s != nil {
		s.join(ctx)
	}
	return s
}

// submit sends an order until it has an outcome, the claim is lost, or the time of all callers is over. Each attempt acquires a
// permit, renews the claim unless it is the first attempt, posts the order once, and records the result.
func (o *Orders) submit(ctx context.Context, s *submission) {
	s.debug(ctx, "an order is claimed", "claims", s.order.Claims)
	for attempt := 0; ; attempt++ {
		permit, err := s.acquire(ctx)
		if err == nil && attempt > 0 {
			err = s.renew(ctx)
		}
		if err == nil && !permit.IsValid() { // a pause started during the renewal of the claim
			permit.Release(limiter.Result{Outcome: limiter.Unused})
			attempt--
			continue
		}
		if err == nil {
			err = s.begin()
		}
		if err != nil {
			permit.Release(limiter.Result{Outcome: limiter.Unused})
			if !s.lost {
				s.conclude(ctx, catalog.Generation{}, err)
			}
			return
		}
		g, posted, err := o.Catalog.Post(ctx, s.cred, catalog.Order{
			ModelID: s.order.ModelID, Inputs: json.RawMessage(s.order.Inputs), IdempotencyKey: s.order.UpstreamKey, LeaveBy: s.leaveBy, Attempt: attempt + 1, Permit: permit,
		})
		s.logAttempt(ctx, attempt+1, g, err)
		if again := s.note(posted, err); !again {
			s.conclude(ctx, g, err)
			return
		}
		s.recordProblem(ctx, err)
		if catalog.KindOf(err) != catalog.KindRateLimited { // otherwise the limiter makes it wait
			s.pause(ctx, o.backoff(attempt, err))
		}
	}
}

// note notes what has become of an attempt, and reports whether another one may make the outcome certain.
func (s *submission) note(posted catalog.Posted, err error) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isRefused := posted == catalog.Answered && err != nil
	s.definite = isRefused && isDefinite(err) && !s.sent
	s.doubtful = s.doubtful || isRefused && !isDefinite(err) && catalog.KindOf(err) != catalog.KindRateLimited
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

// pause waits before the next attempt, unless no further attempt may begin.
func (s *submission) pause(ctx context.Context, d time.Duration) {
	for due := time.Now().Add(d); time.Now().Before(due) && s.over() == nil; {
		waiting, cancel := s.waits(ctx)
		sleep(waiting, time.Until(due))
		cancel(nil)
	}
}

// join adds a caller that waits until the deadline of ctx.
func (s *submission) join(ctx context.Context) {
	until, withdrawAt := answerBy(ctx), withdrawBy(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	if until.After(s.until) {
		s.until = until
	}
	if withdrawAt.After(s.withdrawAt) {
		s.withdrawAt = withdrawAt
	}
}

// withdrawTime is the time before the deadline of the last caller at which an order that was not sent is withdrawn, so
// that its withdrawal is recorded before it is returned. It is a tenth of the caller's time, if that is shorter.
const withdrawTime = time.Second

func withdrawBy(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(submitTime)
	}
	return deadline.Add(-min(time.Until(deadline)/10, withdrawTime))
}

// wait waits for the outcome until ctx ends. It reports whether there is an outcome; otherwise err leaves it open.
func (s *submission) wait(ctx context.Context) (ended bool, err error) {
	select {
	case <-s.ended:
		return true, nil
	case <-ctx.Done():
		s.leave()
		return false, s.open(context.Cause(ctx))
	}
}

// leave removes a caller. The attempts continue without it, but not for so long that they pile up. If it was the last one
// and no attempt may have been accepted, no further attempt begins.
func (s *submission) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting > 0 {
		return
	}
	if end := time.Now().Add(submitTime); end.Before(s.until) {
		s.until = end
	}
	if s.wake != nil {
		s.wake(context.Canceled)
	}
}

// open returns the error of a caller that leaves before an outcome is recorded, with the error of the last attempt.
func (s *submission) open(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := errors.AsType[*catalog.Error](s.last)
	switch {
	case !ok:
		last = unknown(cause)
	case !leavesOpen[last.Kind]:
		last = outcomeUnknown(last, cause)
	}
	return &Error{outcomes[s.order.Left().Answer], last}
}
