package telemetry

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/easel-grpc/easel/internal/watch"
)

// Replicas is what shares the polls with others, where something does.
type Replicas struct {
	Connected                         bool  // to NATS
	Leading, Fenced, Refused, Takings int64 // leases held, messages dropped by why, leases taken
}

// Measure reads metrics from the hub, and from what it shares polls by, whenever somebody collects
// them, until stop is called. replicas is nil where polls are not shared.
func Measure(stats func() watch.Stats, replicas func() Replicas) (stop func(), err error) {
	meter := otel.Meter(scope)
	m := newHubMeasures(meter)
	var r *replicaMeasures
	if replicas != nil {
		r = newReplicaMeasures(&m.readings)
	}
	if m.failed != nil {
		return nil, m.failed
	}
	registered, err := meter.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		s := stats()
		m.observe(out, s)
		if r != nil {
			r.observe(out, s, replicas())
		}
		return nil
	}, m.all...)
	if err != nil {
		return nil, fmt.Errorf("measure the hub: %w", err)
	}
	return func() {
		if err := registered.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// readings are metrics that are read when somebody collects them.
type readings struct {
	meter  metric.Meter
	all    []metric.Observable
	failed error
}

// hubMeasures are those that are read from the hub.
type hubMeasures struct {
	readings

	watches, active, credentials, paused metric.Int64ObservableGauge
	stalest, level, rate                 metric.Float64ObservableGauge
	conflated, regressed                 metric.Int64ObservableCounter
	unshared                             metric.Float64ObservableCounter
	conditions                           []metric.MeasurementOption
}

func newHubMeasures(meter metric.Meter) *hubMeasures {
	m := &hubMeasures{readings: readings{meter: meter}}
	m.watches = m.count("easel.watches.open")
	m.active = m.count("easel.generations.active")
	m.credentials = m.count("easel.credentials")
	m.paused = m.count("easel.credentials.paused")
	m.stalest = m.amount("easel.generations.stalest")
	m.level = m.amount("easel.budget.level")
	m.rate = m.amount("easel.budget.rate")
	m.conflated = m.total("easel.updates.conflated")
	m.regressed = m.total("easel.updates.regressed")
	unshared, err := meter.Float64ObservableCounter("easel.polls.unshared")
	m.unshared = unshared
	m.add(unshared, err)
	for _, name := range condition.Values {
		m.conditions = append(m.conditions, labelled(attribute.String(condition.Name, name)))
	}
	return m
}

func (m *readings) add(made metric.Observable, err error) {
	m.all, m.failed = append(m.all, made), errors.Join(m.failed, err)
}

func (m *readings) count(name string) metric.Int64ObservableGauge {
	made, err := m.meter.Int64ObservableGauge(name)
	m.add(made, err)
	return made
}

func (m *readings) amount(name string) metric.Float64ObservableGauge {
	made, err := m.meter.Float64ObservableGauge(name)
	m.add(made, err)
	return made
}

func (m *readings) total(name string) metric.Int64ObservableCounter {
	made, err := m.meter.Int64ObservableCounter(name)
	m.add(made, err)
	return made
}

func (m *hubMeasures) observe(out metric.Observer, s watch.Stats) {
	out.ObserveInt64(m.watches, int64(s.Watches))
	out.ObserveInt64(m.active, int64(s.Active))
	out.ObserveInt64(m.paused, int64(s.Paused))
	for i, n := range s.Conditions {
		out.ObserveInt64(m.credentials, int64(n), m.conditions[i])
	}
	out.ObserveFloat64(m.stalest, s.Stalest.Seconds())
	out.ObserveFloat64(m.level, s.Budget)
	out.ObserveFloat64(m.rate, s.Rate)
	out.ObserveInt64(m.conflated, s.Conflated)
	out.ObserveInt64(m.regressed, s.Regressions)
	out.ObserveFloat64(m.unshared, s.Unshared)
}

// tellBuild measures what this build is.
func tellBuild(meter metric.Meter, version string) error {
	build := metric.WithAttributes(attribute.String("version", version), attribute.String("go_version", runtime.Version()))
	_, err := meter.Int64ObservableGauge("easel.build.info", metric.WithInt64Callback(func(_ context.Context, out metric.Int64Observer) error {
		out.Observe(1, build)
		return nil
	}))
	return err
}
