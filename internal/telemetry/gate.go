package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/easel-grpc/easel/internal/gate"
)

// gateMetrics are the rows of the table that a gate has.
var gateMetrics = []string{"easel.gate.waiting", "easel.gate.wait", "easel.gate.closed", "easel.gate.opens"}

// MeasureGates measures the gates of all API keys at each collection, until stop is called.
func MeasureGates(states func() map[string]gate.State) (stop func(), err error) {
	meter, gauges := otel.Meter(scope), map[string]metric.Float64ObservableGauge{}
	var all []metric.Observable
	for _, name := range gateMetrics {
		one, fault := meter.Float64ObservableGauge(name)
		gauges[name], all, err = one, append(all, one), errors.Join(err, fault)
	}
	if err != nil {
		return nil, err
	}
	registered, err := meter.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		readGates(states(), time.Now()).observe(func(name string, value float64, labels ...attribute.KeyValue) {
			out.ObserveFloat64(gauges[name], value, metric.WithAttributes(labels...))
		})
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("measure the gates: %w", err)
	}
	return func() {
		if err := registered.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// line is who waits: an owner and a class.
type line struct{ owner, class string }

// gatesReading is what the gates of all API keys say together.
type gatesReading struct {
	waiting map[line]int
	owners  map[string]bool
	wait    time.Duration
	closed  map[string]int // by reason
	opens   time.Duration
}

func readGates(states map[string]gate.State, now time.Time) gatesReading {
	r := gatesReading{waiting: map[line]int{}, owners: map[string]bool{}, closed: map[string]int{}}
	for _, s := range states {
		for _, w := range s.Waiting {
			r.waiting[line{r.nameOf(w.Owner), w.Class.String()}] += w.Count
			r.wait = max(r.wait, now.Sub(w.Since))
		}
		if s.Closed(now) {
			r.closed[reasonOf(s.Why)]++
			r.opens = max(r.opens, s.Paused.Sub(now))
		}
		if s.Capped {
			r.closed["daily_cap"]++
		}
	}
	return r
}

// nameOf is an owner's name in metrics, of which there are so many at most.
func (r gatesReading) nameOf(owner string) string {
	name := cmp.Or(owner, "forwarded")
	if !r.owners[name] && len(r.owners) >= measuredOwners {
		return "other"
	}
	r.owners[name] = true
	return name
}

func reasonOf(why gate.Outcome) string {
	if why == gate.Paused {
		return "unavailable"
	}
	return "rate_limited"
}

func (r gatesReading) observe(gauge func(string, float64, ...attribute.KeyValue)) {
	for l, n := range r.waiting {
		gauge("easel.gate.waiting", float64(n), append(with(waiter, l.owner), with(class, l.class)...)...)
	}
	gauge("easel.gate.wait", r.wait.Seconds())
	for _, reason := range closedBy.Values {
		gauge("easel.gate.closed", float64(r.closed[reason]), with(closedBy, reason)...)
	}
	gauge("easel.gate.opens", r.opens.Seconds())
}
