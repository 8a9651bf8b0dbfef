package orders

import (
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
)

// errRenewalDue interrupts a wait for a permit when the lease must be renewed.
var errRenewalDue = errors.New("lease renewal due")

// prepareAttempt acquires a permit for an attempt. Before each attempt after the first, it also renews the lease. It returns an
// error if no attempt may start. If the order's expire time has passed, the error has the kind [catalog.KindOrderExpired].
func (s *submission) prepareAttempt(ctx context.Context, attempt int) (permit *limiter.Permit, err error) {
	if err = s.stopReason(); err == nil && attempt > 0 {
		err = s.renewLease(ctx)
	}
	if err == nil {
		permit, err = s.acquirePermit(ctx)
	}
	if err == nil {
		s.beginAttempt()
	}
	if errors.Is(err, ledger.ErrOrderExpired) || err != nil && !s.lost && s.isExpired() {
		err = orderExpired()
	}
	return permit, err
}

// isExpired reports whether the expire time of the order has passed.
func (s *submission) isExpired() bool { return !s.expires.IsZero() && !time.Now().Before(s.expires) }

// acquirePermit waits for a permit for an attempt, and renews the lease while it waits. It returns an error as soon as no
// further attempt may start.
func (s *submission) acquirePermit(ctx context.Context) (*limiter.Permit, error) {
	if s.arrived.IsZero() {
		s.arrived = time.Now()
	}
	for {
		if err := s.stopReason(); err != nil {
			return nil, err
		}
		waiting, cancel := s.waitContext(ctx)
		renewal := time.AfterFunc(time.Until(s.leased.Add(ledger.RenewAfter)), func() { cancel(errRenewalDue) })
		permit, err := s.orders.Catalog.Acquire(waiting, s.cred, s.arrived, s.mayExist)
		cause := context.Cause(waiting)
		renewal.Stop()
		cancel(nil)
		switch {
		case err == nil:
			return permit, nil
		case errors.Is(cause, errRenewalDue):
			if err := s.renewLease(ctx); err != nil {
				return nil, err
			}
		case !errors.Is(cause, context.Canceled) && !s.mayContinue(waiting): // the wait was not canceled, and no caller with a later deadline has joined, so the error is final
			return nil, err
		}
	}
}

// mayContinue reports whether attempts may continue after the deadline of a wait, because a caller with a later deadline has
// joined since the wait started. waitCtx is the context of the wait.
func (s *submission) mayContinue(waitCtx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline, _ := waitCtx.Deadline()
	return s.endTime().After(deadline)
}

// waitContext returns a context that limits the time spent waiting for a permit or for the next attempt. The context is
// done when no caller has enough time left, the order expires, the last caller leaves, or the process stops. The returned
// function must be called after the wait.
func (s *submission) waitContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	timed, done := context.WithDeadline(ctx, s.endTime())
	waiting, cancel := context.WithCancelCause(timed)
	s.wake = cancel
	stopped := context.AfterFunc(s.orders.stopping, func() { cancel(context.Canceled) })
	return waiting, func(cause error) {
		cancel(cause)
		done()
		stopped()
	}
}

// endTime returns the time after which no attempt may start. The caller must hold s.mu.
func (s *submission) endTime() time.Time {
	end := s.withdrawAt
	if s.mayExist {
		end = s.until
	}
	if !s.expires.IsZero() && s.expires.Before(end) {
		end = s.expires
	}
	return end
}

// stopReason returns an error if no further attempt may start. There are four reasons:
//
//   - No caller has enough time left.
//   - The order has expired.
//   - The process is stopping.
//   - No caller waits, and no attempt can have been accepted.
//
// If the last attempt failed, stopReason returns the error from that attempt. Otherwise it returns an error with an unknown
// outcome.
func (s *submission) stopReason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Now().Before(s.endTime()) && (s.waiting > 0 || s.mayExist) && s.orders.stopping.Err() == nil:
		return nil
	case s.last != nil:
		return s.last
	}
	return unknown(nil)
}

// beginAttempt records that an attempt is in flight.
func (s *submission) beginAttempt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake, s.last = nil, nil
}

// renewLease extends the lease. It returns an error if another process has acquired the lease, the order has expired, or the
// ledger fails.
func (s *submission) renewLease(ctx context.Context) error {
	asked := time.Now() // read before the query, because the lease starts while the query runs
	may, left, err := s.orders.Ledger.Renew(ctx, s.order.ID, s.order.Leases, s.order.APIKey)
	if err != nil {
		return asInDoubt(err)
	}
	s.leased, s.leaveBy = asked, asked.Add(left)
	s.debug(ctx, "order lease renewal requested", "granted", may)
	if s.lost = !may; s.lost {
		return errLeaseLost
	}
	return nil
}

// errLeaseLost means that another process has acquired the lease.
var errLeaseLost = errors.New("another process has the lease")
