package telemetry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/easel-grpc/easel/internal/watch"
)

// Replicas counts the messages and leases of the replicas that share polls.
type Replicas struct {
	Connected                          bool  // to NATS
	Leading, Fenced, Refused, Acquired int64 // leases held, messages dropped by why, leases taken
}

// Measure reads the metrics of the hub and of the replicas at each collection, until stop is called.
// replicas is nil where polls are not shared.
func Measure(stats func() watch.Stats, replicas func() Replicas) (stop func(), err error) {
	meter, read := otel.Meter(scope), hubReadings()
	if replicas == nil {
		replicas = func() Replicas { return Replicas{} }
	} else {
		read = append(read, replicaReadings...)
	}
	made, all, err := observables(meter, read)
	if err != nil {
		return nil, err
	}
	registered, err := meter.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		s, r := stats(), replicas()
		for _, one := range read {
			out.ObserveFloat64(made[one.metric], one.value(s, r), metric.WithAttributes(one.labels...))
		}
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("measure the hub: %w", err)
	}
	return func() {
		if err := registered.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// reading is a series that is read at each collection.
type reading struct {
	metric string // in the table
	value  func(watch.Stats, Replicas) float64
	labels []attribute.KeyValue
}

// observables makes the instruments of readings, as the table has them.
func observables(meter metric.Meter, read []reading) (made map[string]metric.Float64Observable, all []metric.Observable, err error) {
	made = map[string]metric.Float64Observable{}
	for _, row := range Table {
		if !slices.ContainsFunc(read, func(r reading) bool { return r.metric == row.Name }) {
			continue
		}
		var one metric.Float64Observable
		var fault error
		if row.Kind == Counter {
			one, fault = meter.Float64ObservableCounter(row.Name)
		} else {
			one, fault = meter.Float64ObservableGauge(row.Name)
		}
		made[row.Name], all, err = one, append(all, one), errors.Join(err, fault)
	}
	return made, all, err
}

// hubReadings are the readings of the hub.
func hubReadings() []reading {
	all := []reading{
		{metric: "easel.watches.open", value: func(s watch.Stats, _ Replicas) float64 { return float64(s.Watches) }},
		{metric: "easel.generations.active", value: func(s watch.Stats, _ Replicas) float64 { return float64(s.Active) }},
		{metric: "easel.generations.stalest", value: func(s watch.Stats, _ Replicas) float64 { return s.Stalest.Seconds() }},
		{metric: "easel.credentials.paused", value: func(s watch.Stats, _ Replicas) float64 { return float64(s.Paused) }},
		{metric: "easel.budget.level", value: func(s watch.Stats, _ Replicas) float64 { return s.Budget }},
		{metric: "easel.budget.rate", value: func(s watch.Stats, _ Replicas) float64 { return s.Rate }},
		{metric: "easel.updates.conflated", value: func(s watch.Stats, _ Replicas) float64 { return float64(s.Conflated) }},
		{metric: "easel.updates.regressed", value: func(s watch.Stats, _ Replicas) float64 { return float64(s.Regressions) }},
		{metric: "easel.polls.unshared", value: func(s watch.Stats, _ Replicas) float64 { return s.Unshared }},
		{"easel.polls.claims", func(s watch.Stats, _ Replicas) float64 { return float64(s.Claimed) }, with(claimed, "granted")},
		{"easel.polls.claims", func(s watch.Stats, _ Replicas) float64 { return float64(s.Refused) }, with(claimed, "refused")},
		{metric: "easel.polls.taken", value: func(s watch.Stats, _ Replicas) float64 { return float64(s.Taken) }},
		{metric: "easel.credentials.away", value: func(s watch.Stats, _ Replicas) float64 { return float64(s.Away) }},
	}
	for i, name := range condition.Values {
		all = append(all, reading{"easel.credentials", func(s watch.Stats, _ Replicas) float64 { return float64(s.Conditions[i]) }, with(condition, name)})
	}
	return all
}

// replicaReadings are the readings of replicas that share polls.
var replicaReadings = []reading{
	{metric: "easel.replicas.connected", value: func(_ watch.Stats, r Replicas) float64 {
		if r.Connected {
			return 1
		}
		return 0
	}},
	{metric: "easel.leases.held", value: func(_ watch.Stats, r Replicas) float64 { return float64(r.Leading) }},
	{metric: "easel.leases.taken", value: func(_ watch.Stats, r Replicas) float64 { return float64(r.Acquired) }},
	{metric: "easel.credentials.alone", value: func(s watch.Stats, _ Replicas) float64 { return float64(s.Alone) }},
	{"easel.replicas.dropped", func(_ watch.Stats, r Replicas) float64 { return float64(r.Fenced) }, with(dropReason, "fenced")},
	{"easel.replicas.dropped", func(_ watch.Stats, r Replicas) float64 { return float64(r.Refused) }, with(dropReason, "refused")},
	{"easel.replicas.states", func(s watch.Stats, _ Replicas) float64 { return float64(s.Applied) }, with(peerOutcome, "told")},
	{"easel.replicas.states", func(s watch.Stats, _ Replicas) float64 { return float64(s.Restored) }, with(peerOutcome, "recalled")},
	{"easel.replicas.states", func(s watch.Stats, _ Replicas) float64 { return float64(s.Stale) }, with(peerOutcome, "stale")},
	{"easel.replicas.states", func(s watch.Stats, _ Replicas) float64 { return float64(s.Refuted) }, with(peerOutcome, "refuted")},
}

func with(label Label, value string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String(label.Name, value)}
}

// measureBuild measures the version of this build.
func measureBuild(meter metric.Meter, version string) error {
	build := metric.WithAttributes(attribute.String("version", version), attribute.String("go_version", runtime.Version()))
	_, err := meter.Int64ObservableGauge("easel.build.info", metric.WithInt64Callback(func(_ context.Context, out metric.Int64Observer) error {
		out.Observe(1, build)
		return nil
	}))
	return err
}
