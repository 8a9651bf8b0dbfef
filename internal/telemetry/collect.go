package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/watch"
)

// observe is a function that records the value of one series during a collection. name is the name of the metric, which must
// be in [Table].
type observe func(name string, value float64, labels ...attribute.KeyValue)

// Readings contains functions that read the sources of metrics. They are called at each collection, and send no requests to
// other processes. If a function is nil, its metrics are omitted.
type Readings struct {
	Hub      func() watch.Stats
	Limiters func() map[string]limiter.State // limiter states by [catalog.Tenant]
	Ledger   func() ledger.Reading
	Copies   func() CopyCounts         // counts of operations on copies of results; requires Ledger
	Settings func() map[string][]error // errors from loading files and issuer keys, keyed by setting
}

// Measure registers the metrics whose values are read at each collection. It returns a function that unregisters them.
func Measure(r Readings) (stop func(), err error) {
	reads := map[Source]func(observe){}
	if r.Hub != nil {
		reads[Hub] = func(value observe) { readHub(r.Hub(), value) }
	}
	if r.Limiters != nil {
		reads[Limiters] = func(value observe) { readLimiters(r.Limiters(), time.Now()).observe(value) }
	}
	if r.Ledger != nil {
		reads[Ledger] = func(value observe) { readLedger(r.Ledger(), value) }
	}
	if r.Copies != nil {
		reads[Contents] = func(value observe) { readContents(r.Copies(), r.Ledger().Contents, value) }
	}
	if r.Settings != nil {
		reads[Settings] = func(value observe) { readSettings(r.Settings(), value) }
	}
	return registerMetrics(reads)
}

func readHub(s watch.Stats, value observe) {
	value("easel.watch.open", float64(s.Watches))
	value("easel.generation.active", float64(s.Active))
	value("easel.generation.stalest", s.Stalest.Seconds())
	for i, name := range condition.Values {
		value("easel.credentials", float64(s.Conditions[i]), condition.is(name))
	}
	value("easel.credential.paused", float64(s.Paused))
	value("easel.poll.ready", s.Ready)
	value("easel.poll.rate", s.Rate)
	value("easel.update.conflated", float64(s.Conflated))
	value("easel.update.regressed", float64(s.Regressions))
}

func readLedger(l ledger.Reading, value observe) {
	up := 0.0
	if l.Up {
		up = 1
	}
	value("easel.ledger.up", up)
	value("easel.ledger.order.unknown", float64(l.Unknown))
	value("easel.ledger.order.oldest", l.OldestUnknown.Seconds())
	value("easel.ledger.faults", float64(l.Faults))
	value("easel.ledger.dearer", float64(l.Dearer))
	for _, o := range l.Owners {
		readOwner(o, value)
	}
	for _, e := range l.Events {
		value("easel.event.pending", float64(e.Pending), owner.is(e.Owner))
		value("easel.event.oldest", e.Oldest.Seconds(), owner.is(e.Owner))
	}
}

// readOwner records the metrics of an owner.
func readOwner(o ledger.OwnerSummary, value observe) {
	name := owner.is(o.Owner)
	value("easel.ledger.spent", float64(o.SpentCents), name)
	value("easel.ledger.refunded", float64(o.RefundedCents), name)
	value("easel.ledger.reserved", float64(o.ReservedCents), name)
	value("easel.ledger.unconfirmed", float64(o.UnconfirmedCents), name)
	for _, b := range o.Budgets {
		value("easel.ledger.budget.limit", float64(b.LimitCents), name, window.is(b.Period))
		value("easel.ledger.budget.left", float64(b.LeftCents()), name, window.is(b.Period))
	}
}

// CopyCounts contains the numbers of operations on copies of results since this process started.
type CopyCounts struct {
	Copied, Failures int64 // numbers of successful and failed attempts to copy a result
	Bytes            int64 // total size of the successful copies, in bytes
	Reads, Rescued   int64 // numbers of results that were opened from their copies, and of those opened in the catalog because the copy could not be opened
}

// readContents records the metrics for copies of results: the counts of this process and the state in the ledger.
func readContents(done CopyCounts, known ledger.ContentSummary, value observe) {
	value("easel.content.waiting", float64(known.Waiting))
	value("easel.content.failed", float64(known.Failed))
	value("easel.content.oldest_waiting", known.Oldest.Seconds())
	value("easel.content.copies", float64(done.Copied), copyOutcome.is("copied"))
	value("easel.content.copies", float64(done.Failures), copyOutcome.is("failed"))
	value("easel.content.copied", float64(done.Bytes))
	value("easel.content.reads", float64(done.Reads), contentSource.is("copy"))
	value("easel.content.reads", float64(done.Rescued), contentSource.is("catalog"))
}

func readSettings(problems map[string][]error, value observe) {
	for name, errs := range problems {
		value("easel.setting.broken", float64(len(errs)), setting.is(name))
	}
}

// registerMetrics creates an instrument for each metric in [Table], if readers contains a function for its source. It also
// registers a callback that calls these functions at each collection.
func registerMetrics(readers map[Source]func(observe)) (stop func(), err error) {
	meter, made, all := otel.Meter(scope), map[string]metric.Float64Observable{}, []metric.Observable{}
	for _, row := range Table {
		if readers[row.From] == nil {
			continue
		}
		one, err := newInstrument(meter, row)
		if err != nil {
			return nil, err
		}
		made[row.Name], all = one, append(all, one)
	}
	registered, err := meter.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		for _, read := range readers {
			read(func(name string, value float64, labels ...attribute.KeyValue) {
				out.ObserveFloat64(made[name], value, metric.WithAttributes(labels...))
			})
		}
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return func() {
		if err := registered.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// newInstrument creates the observable instrument for a row of [Table]. Its value is read at each collection.
func newInstrument(meter metric.Meter, row Metric) (metric.Float64Observable, error) {
	switch row.Kind {
	case Counter:
		return meter.Float64ObservableCounter(row.Name)
	case UpDown:
		return meter.Float64ObservableUpDownCounter(row.Name)
	}
	return meter.Float64ObservableGauge(row.Name)
}

func (l Label) is(value string) attribute.KeyValue { return attribute.String(l.Name, value) }
