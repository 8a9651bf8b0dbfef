package orders

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
)

const (
	submitTime    = time.Minute            // maximum duration of attempts for a call without a deadline, and after the last caller has disconnected
	submitBackoff = 200 * time.Millisecond // delay before the second attempt; doubles before each further attempt
	submitPause   = 5 * time.Second        // maximum delay before an attempt, unless the catalog requests a longer one
	refusalPause  = 10 * time.Second       // minimum retry delay in an error that reports an unknown outcome instead of a rejection
	recordPause   = 50 * time.Millisecond  // delay before the first retry of recording an outcome; doubles after each failure
	recordWithin  = 15 * time.Second       // maximum time to record an outcome
)

// submission sends an order under a lease, for a call or for [Orders.ResendAbandoned]. It outlives the call that started it.
// Further calls with the same idempotency key wait for the same submission.
type submission struct {
	orders  *Orders
	cred    catalog.Credential // credential for every attempt
	order   ledger.Order       // always contains the inputs; contains the labels only if the call that started this submission also wrote the order to the ledger
	placed  time.Time          // time when the order was written to the ledger
	leased  time.Time          // start time of the query that acquired the lease or last renewed it
	leaveBy time.Time          // no attempt may be sent after this time, because the lease expires shortly after it
	expires time.Time          // time when the order expires, by the clock of this process; zero means no limit

	mayExist bool // whether an attempt of this submission or of an earlier one may have been accepted
	progress progress
	problem  string    // latest recorded problem
	arrived  time.Time // start of the first wait for a permit

	mu         sync.Mutex
	wake       context.CancelCauseFunc // cancels the current wait; nil while an attempt is in flight
	waiting    int                     // number of waiting callers
	withdrawAt time.Time               // time at which the order is withdrawn if no attempt was sent; early enough to record the withdrawal before the last caller's deadline
	until      time.Time               // deadline for attempts after one that may have been accepted: the latest [answerBy] of all callers, but no later than submitTime after the last caller has disconnected
	last       error                   // error from the last attempt; nil while an attempt is in flight

	// The fields from generation to err are set before ended is closed.
	ended      chan struct{}
	generation catalog.Generation
	refused    bool // whether the recorded outcome is a rejection; the idempotency key can then be used again
	lost       bool // whether another process has acquired the lease
	err        error
}

// progress summarizes the attempts of a submission so far.
type progress int

const (
	unsent   progress = iota // no attempt has reached the catalog
	rejected                 // exactly one attempt has reached the catalog, which has definitely rejected it
	sent                     // at least one attempt has reached the catalog, and none of the other values applies
	doubtful                 // an attempt was rejected, but not definitely (see isDefinite), so the order may exist
)

// addAttempt returns the progress after one more attempt. posted and err are the result of that attempt.
func (p progress) addAttempt(posted catalog.Posted, err error) progress {
	isRejected := posted == catalog.Answered && err != nil
	switch {
	case posted == catalog.NotSent, p == doubtful:
		return p
	case isRejected && !isDefinite(err) && catalog.KindOf(err) != catalog.KindRateLimited:
		return doubtful
	case isRejected && isDefinite(err) && p == unsent:
		return rejected
	}
	return sent
}

// newSubmission creates a submission of an order, with a first caller that waits for the outcome until ctx is done. leaseStart
// is the start time of the query that acquired the order's lease.
func (o *Orders) newSubmission(ctx context.Context, cred catalog.Credential, order ledger.Order, leaseStart time.Time) *submission {
	s := &submission{
		orders: o, cred: cred, order: order, placed: leaseStart.Add(-order.Age), leased: leaseStart, leaveBy: leaseStart.Add(o.Ledger.Sendable(order)), mayExist: order.Leases > 1,
		ended: make(chan struct{}),
	}
	if left, limited := order.ExpiresIn(); limited {
		s.expires = leaseStart.Add(left)
	}
	s.addCaller(ctx)
	return s
}

// startSubmission starts a goroutine that sends the order of the submission s.
func (o *Orders) startSubmission(ctx context.Context, s *submission) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.submissions[s.order.ID] = s
	o.work.Go(func() {
		o.submitOrder(ctx, s)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.submissions[s.order.ID] == s { // a submission that holds a later lease may have replaced s
			delete(o.submissions, s.order.ID)
		}
		close(s.ended)
	})
}

// joinSubmission adds a caller to the submission that sends the order in this process, and returns the submission. It returns
// nil if there is no such submission.
func (o *Orders) joinSubmission(ctx context.Context, orderID string) *submission {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.submissions[orderID]
	if s != nil {
		s.addCaller(ctx)
	}
	return s
}

// submitOrder sends an order, repeatedly if necessary, until its outcome is certain, the lease is lost, or no further attempt
// may start. For each attempt, submitOrder acquires a permit, posts the order once, and records the result. Before each attempt
// after the first, it also renews the lease.
func (o *Orders) submitOrder(ctx context.Context, s *submission) {
	s.debug(ctx, "order lease acquired", "claims", s.order.Leases)
	for attempt := 0; ; attempt++ {
		permit, err := s.prepareAttempt(ctx, attempt)
		if err != nil {
			permit.Release(limiter.Result{Outcome: limiter.Unused})
			if !s.lost {
				s.concludeOrder(ctx, catalog.Generation{}, err)
			}
			return
		}
		g, posted, err := o.Catalog.Post(ctx, s.cred, catalog.Order{
			ModelID: s.order.ModelID, Inputs: json.RawMessage(s.order.Inputs), IdempotencyKey: s.order.UpstreamKey, LeaveBy: s.leaveBy, Attempt: attempt + 1, Permit: permit,
		})
		s.logAttempt(ctx, attempt+1, g, err)
		if again := s.noteAttempt(posted, err); !again {
			s.concludeOrder(ctx, g, err)
			return
		}
		s.recordProblem(ctx, err)
		if catalog.KindOf(err) != catalog.KindRateLimited { // after a 429, the limiter delays the next attempt
			s.pauseAttempts(ctx, o.retryDelay(attempt, err))
		}
	}
}

// noteAttempt stores the result of an attempt in the submission. It returns true if another attempt could make the order's
// outcome certain.
func (s *submission) noteAttempt(posted catalog.Posted, err error) (mayRetry bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = s.progress.addAttempt(posted, err)
	s.mayExist = s.mayExist || posted == catalog.Unknown
	s.last = s.withholdRejection(err)
	switch catalog.KindOf(err) {
	case catalog.KindOutcomeUnknown, catalog.KindInProgress, catalog.KindBusy, catalog.KindRateLimited:
		return true
	}
	return false
}

// withholdRejection converts a rejection to an error with an unknown outcome if an earlier attempt may have been accepted. If
// the caller received the rejection instead, it might order again under a new idempotency key and pay twice.
func (s *submission) withholdRejection(err error) error {
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

// retryDelay returns the delay before the next attempt. The delay doubles with each attempt up to submitPause, and is then
// reduced by up to half at random. If the catalog requests a longer delay, retryDelay returns that delay.
func (o *Orders) retryDelay(attempt int, err error) time.Duration {
	d := min(submitBackoff<<min(attempt, 10), submitPause)
	d = d/2 + o.Catalog.Jitter(d/2)
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		d = max(d, e.RetryAfter)
	}
	return d
}

// pauseAttempts waits for d before the next attempt, and renews the lease while it waits. It returns earlier if no further
// attempt may start.
func (s *submission) pauseAttempts(ctx context.Context, d time.Duration) {
	for due := time.Now().Add(d); time.Now().Before(due) && s.stopReason() == nil; {
		waiting, cancel := s.waitContext(ctx)
		sleep(waiting, min(time.Until(due), time.Until(s.leased.Add(ledger.RenewAfter))))
		cancel(nil)
		if time.Since(s.leased) < ledger.RenewAfter {
			continue
		}
		err := s.renewLease(ctx)
		if s.lost || errors.Is(err, ledger.ErrOrderExpired) {
			return
		}
		if err != nil { // the ledger may recover before the lease ends
			sleep(ctx, time.Second)
		}
	}
}

// addCaller adds a caller that waits until shortly before the deadline of ctx.
func (s *submission) addCaller(ctx context.Context) {
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

// withdrawTime is the maximum time between the withdrawal of an unsent order and the caller's deadline. It leaves time to
// record the withdrawal. If less than ten seconds remain until the deadline, [withdrawBy] uses a tenth of the remaining time
// instead.
const withdrawTime = time.Second

func withdrawBy(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(submitTime)
	}
	return deadline.Add(-min(time.Until(deadline)/10, withdrawTime))
}

// awaitEnd waits until the submission has ended or ctx is done. If ctx is done first, hasEnded is false, and the error has an
// unknown outcome.
func (s *submission) awaitEnd(ctx context.Context) (hasEnded bool, err error) {
	select {
	case <-s.ended:
		return true, nil
	case <-ctx.Done():
		s.removeCaller()
		return false, s.openError(context.Cause(ctx))
	}
}

// removeCaller removes a caller. If no caller remains, a further attempt starts only if an earlier attempt may have been
// accepted. Attempts then continue for at most submitTime, so that submissions do not accumulate.
func (s *submission) removeCaller() {
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

// openError returns the error for a caller that disconnects or reaches its deadline before the attempts have ended. If
// the last attempt failed, the error contains the details of that failure.
func (s *submission) openError(cause error) error {
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

// answerBy returns the time at which a call stops waiting for the outcome of an order. This is shortly before the caller's
// deadline, so that the caller receives the response in time.
func answerBy(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(submitTime)
	}
	return deadline.Add(-min(time.Until(deadline)/10, 100*time.Millisecond))
}

// logAttributes returns the log attributes of the order, followed by the given attributes.
func (s *submission) logAttributes(more ...any) []any {
	return append(logAttributes(s.order, s.cred), more...)
}

// debug logs a debug message about the order.
func (s *submission) debug(ctx context.Context, message string, more ...any) {
	if s.orders.Logger.Enabled(ctx, slog.LevelDebug) {
		s.orders.Logger.DebugContext(ctx, message, s.logAttributes(more...)...)
	}
}

// logAttempt logs the result of an attempt.
func (s *submission) logAttempt(ctx context.Context, attempt int, g catalog.Generation, err error) {
	if err != nil {
		s.debug(ctx, "order attempt failed", "attempt", attempt, "kind", catalog.KindOf(err).String(), "error", err)
		return
	}
	s.debug(ctx, "order attempt succeeded", "attempt", attempt, "generation", g.ID)
}
