package orders

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	recoverEvery   = 2 * time.Second  // interval between queries for abandoned orders
	recoverAtMost  = 8                // maximum number of concurrent resends
	resendTime     = 15 * time.Second // timeout for all attempts to resend one order
	outagePauseMax = 15 * time.Second // maximum delay before the next resend while the catalog does not respond
	capPause       = time.Minute      // delay before the next resend after the daily cap has rejected one
)

// ResendAbandoned resends abandoned orders whose outcome is unknown, until ctx is done. Each order is sent by at most one
// replica at a time, with the stored idempotency key, the same bytes as before and the API key of the first attempt. Owners
// take turns. While the catalog does not respond, a replica sends only one order at a time. No order is sent during a pause of
// the limiter, or while [jobs.MayAsk] returns false.
func (o *Orders) ResendAbandoned(ctx context.Context, shared catalog.Credential) {
	r := &recovery{orders: o, shared: shared, slots: make(chan struct{}, recoverAtMost)}
	defer r.resends.Wait()
	for sleep(ctx, r.outage.resendDelay(recoverEvery)) {
		for r.resendNext(ctx) {
		}
	}
}

// recovery is the state of [Orders.ResendAbandoned] in one process.
type recovery struct {
	orders  *Orders
	shared  catalog.Credential
	slots   chan struct{}
	resends sync.WaitGroup
	outage  outage
	last    string // owner of the order that was resent last

	cappedAt atomic.Pointer[time.Time] // time when the daily cap last rejected a resend; nil if it has rejected none
}

// isCapped reports whether the daily cap has rejected a resend within the last capPause.
func (r *recovery) isCapped(now time.Time) bool {
	at := r.cappedAt.Load()
	return at != nil && now.Sub(*at) < capPause
}

// resendNext starts the resend of one order, if an order is due and may be sent now. It reports whether it may be called
// again immediately.
func (r *recovery) resendNext(ctx context.Context) bool {
	if s, now := r.orders.Catalog.Limiter(r.shared.Tenant).State(), time.Now(); !jobs.MayAsk(r.orders.Ledger, r.orders.Catalog) || s.Paused.After(now) || r.isCapped(now) {
		return false
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	shared, asked := r.shared.Pinned(), time.Now() // Pinned retains the current API key, which may be rotated during the resend
	order, found, err := r.orders.Ledger.Resume(ctx, shared.APIKeySum(), r.last)
	if err != nil || !found {
		<-r.slots
		return false // a failure of the ledger is not logged here, because calls that use the ledger report it
	}
	r.last = order.Owner
	resend := func() {
		defer func() { <-r.slots }()
		ctx, span := startSpan(ctx, "resend order", attribute.String("easel.order.id", order.ID), attribute.String("easel.model.id", order.ModelID))
		defer span.End()
		err := r.orders.resendOrder(ctx, shared, order, asked)
		if kindOfAttempt(err) == catalog.KindDailyCap {
			r.cappedAt.Store(new(time.Now()))
		}
		r.outage.noteResend(r.meetsOutage(ctx, err))
	}
	if r.outage.isOngoing() {
		resend()
		return !r.outage.isOngoing()
	}
	r.resends.Go(resend)
	return true
}

// meetsOutage reports whether a resend failed because the catalog is down. resendErr is the error from the resend. The order
// itself may have caused this error, so meetsOutage also reads the account.
func (r *recovery) meetsOutage(ctx context.Context, resendErr error) bool {
	if !isOutage(resendErr) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, resendTime)
	defer cancel()
	_, err := r.orders.Catalog.Polls().Account(ctx, r.shared)
	return isOutage(err)
}

// resendOrder sends an order whose lease this process has acquired, and waits for the order's outcome. queryStart is the start
// time of the query that acquired the lease.
func (o *Orders) resendOrder(ctx context.Context, shared catalog.Credential, order ledger.Order, queryStart time.Time) error {
	shared.Owner = order.Owner
	if o.Weight != nil {
		shared.Weight = o.Weight(order.Owner)
	}
	ctx, cancel := context.WithTimeout(ctx, resendTime)
	defer cancel()
	s := o.newSubmission(ctx, shared, order, queryStart)
	o.startSubmission(context.WithoutCancel(ctx), s)
	if ended, err := s.awaitEnd(ctx); !ended {
		return err
	}
	return s.err
}

// outage tracks whether the catalog is down.
type outage struct {
	failures atomic.Int64 // number of consecutive resends that failed because of an outage
}

// noteResend counts the consecutive resends that failed because of an outage. hasFailed is true if the latest resend failed in
// this way.
func (o *outage) noteResend(hasFailed bool) {
	if !hasFailed {
		o.failures.Store(0)
		return
	}
	o.failures.Add(1)
}

// kindOfAttempt returns the kind of the catalog's error for the last attempt. It returns this original kind even if the caller
// receives [catalog.KindOutcomeUnknown] instead.
func kindOfAttempt(err error) catalog.Kind {
	upstream, _ := errors.AsType[*catalog.Error](err)
	if upstream == nil {
		return 0
	}
	return cmp.Or(upstream.Withheld, upstream.Kind)
}

// isOutage reports whether err means that the catalog does not respond, or responds with a server error. It returns false for a
// rate limit, the daily cap, a limit in Easel, and an expired order.
func isOutage(err error) bool {
	upstream, ok := errors.AsType[*catalog.Error](err)
	if !ok {
		return false
	}
	switch kindOfAttempt(err) {
	case catalog.KindRateLimited, catalog.KindDailyCap, catalog.KindBusy, catalog.KindOrderExpired:
		return false
	}
	return upstream.Status == 0 || upstream.Status >= 500
}

func (o *outage) isOngoing() bool { return o.failures.Load() > 0 }

// resendDelay returns the delay before the next resend. leastDelay is the delay without an outage. The delay doubles with each
// consecutive resend that failed because of an outage, up to outagePauseMax.
func (o *outage) resendDelay(leastDelay time.Duration) time.Duration {
	return min(leastDelay<<min(o.failures.Load(), 10), outagePauseMax)
}
