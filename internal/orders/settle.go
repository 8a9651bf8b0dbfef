package orders

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	settleInterval = 30 * time.Second
	settleReads    = 5                  // maximum number of individual reads in each run of the job, in addition to one list request
	settleQuiet    = settleInterval / 2 // minimum age of the last observation of a due generation
	maxSettled     = 1000               // maximum number of due generations that one run considers
	settleTimeout  = 30 * time.Second   // timeout of one request
)

// Settle returns the kind of the job that observes unsettled generations. A generation is due if no process has observed it for
// 15 s. A generation whose order is older than a day is due only if no process has observed it for a day. Each run sends at
// most one list request and five individual reads. It starts with the generations that were observed least recently.
func (o *Orders) Settle(shared catalog.Credential) jobs.Kind {
	return jobs.Kind{
		Name: "settle", Interval: settleInterval, Slots: 1, Catalog: o.Catalog, MinRetry: settleInterval, MaxRetry: settleInterval,
		Do: func(ctx context.Context, _ ledger.Job) (ledger.Outcome, error) {
			return ledger.Outcome{}, o.settleDue(ctx, shared)
		},
	}
}

// settleDue observes due generations once. It returns an error if the catalog or the ledger fails.
func (o *Orders) settleDue(ctx context.Context, shared catalog.Credential) error {
	due, err := o.Ledger.Due(ctx, settleQuiet, maxSettled)
	if err != nil || len(due) == 0 {
		return err
	}
	ctx, span := startSpan(ctx, "settle", attribute.Int("easel.settle.size", len(due)))
	defer span.End()
	look := &look{orders: o, shared: shared}
	if len(due) > settleReads {
		if due, err = look.readList(ctx, due); err != nil {
			return err
		}
	}
	for _, one := range due[:min(len(due), settleReads)] {
		if err := look.readOne(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// look is the state of one run of the settle job.
type look struct {
	orders    *Orders
	shared    catalog.Credential
	witnessed bool // whether the catalog has responded to a request with the shared API key during this run of the settle job
	failures  int  // number of consecutive states that could not be recorded in the ledger
}

// readList sends one list request to the catalog, and records the states in the response. It returns the generations
// that still need an individual read: those that the list omits or describes incompletely, and those for which the list may be
// outdated (see [ledger.Due]).
func (l *look) readList(ctx context.Context, due []ledger.Due) (rest []ledger.Due, err error) {
	o := l.orders
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	listed, err := o.Catalog.Polls().List(ctx, l.shared, time.Time{})
	switch {
	case mustStop(err):
		return nil, err
	case err != nil: // the list request failed, but individual reads may succeed
		return due, nil
	}
	l.witnessed = true
	seen := map[string]ledger.Observation{}
	for _, one := range due {
		v, ok := listed.Find(one.Generation)
		if !ok || one.Last || lacksCharge(v, o.Ledger.IsSubscriber(one.Owner)) {
			rest = append(rest, one)
			continue
		}
		state := o.observation(l.shared, v, false)
		state.AtOnce = true
		seen[v.ID] = state
	}
	_, err = o.recordAll(ctx, seen)
	return rest, err
}

// lacksCharge reports whether a list's record of a terminal generation lacks the charge. For a subscribed owner, which receives
// events, it also returns true if the record lacks the details of the result.
func lacksCharge(v catalog.Version, subscribed bool) bool {
	return v.State.Terminal() && (v.CostCents == nil || subscribed && isShort(v))
}

// isShort reports whether a list's record lacks the details of the result.
func isShort(v catalog.Version) bool {
	return v.State == catalog.StateSucceeded && v.File == nil && v.Text == nil || v.State == catalog.StateFailed && v.FailureMessage == ""
}

// readOne reads one generation, and records its state in the ledger. It then passes the state to the hub, which notifies the
// generation's watchers.
func (l *look) readOne(ctx context.Context, one ledger.Due) error {
	o := l.orders
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	cred := l.shared
	cred.Owner = one.Owner
	read, err := o.Catalog.Polls().Generation(ctx, cred, one.Generation)
	switch {
	case catalog.IsAbsent(err):
		_, err := o.recordAbsence(ctx, cred, one.Generation, l.hasWitness(ctx))
		return l.checkError(err)
	case err != nil && !l.hasWitness(ctx):
		return err
	case err != nil: // only this read failed; an empty observation moves the generation behind the other due generations
		return l.observe(ctx, one.Generation, ledger.Observation{})
	}
	l.witnessed = true
	seen := o.observation(cred, read, false)
	seen.Whole = true
	err = l.observe(ctx, one.Generation, seen)
	o.Hub.Observe(ctx, cred, read, false)
	return err
}

func (l *look) observe(ctx context.Context, id string, seen ledger.Observation) error {
	seen.AtOnce = true
	_, err := l.orders.observeOne(ctx, id, seen)
	return l.checkError(err)
}

// checkError decides whether the run continues after an attempt to record a state returned err. It returns nil if the run
// should continue. A single error may be due to a locked order, so checkError returns err only after settleFailures consecutive
// errors.
func (l *look) checkError(err error) error {
	if err == nil {
		l.failures = 0
		return nil
	}
	if l.failures++; l.failures < settleFailures {
		return nil
	}
	return err
}

// hasWitness reports whether the catalog has responded successfully to a request with the shared API key during this run. If
// there was no such response yet, hasWitness reads the account to obtain one.
func (l *look) hasWitness(ctx context.Context) bool {
	if !l.witnessed {
		_, err := l.orders.Catalog.Polls().Account(ctx, l.shared)
		l.witnessed = err == nil
	}
	return l.witnessed
}

// mustStop reports whether no further requests should be sent after a request has failed with err, because they would
// probably fail for the same reason.
func mustStop(err error) bool {
	kind := catalog.KindOf(err)
	return isOutage(err) || kind == catalog.KindCredentialRejected || kind == catalog.KindRateLimited
}
