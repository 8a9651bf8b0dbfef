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

// Measure reads the metrics of the hub at each collection, until stop is called.
func Measure(stats func() watch.Stats) (stop func(), err error) {
	meter, read := otel.Meter(scope), hubReadings()
	made, all, err := observables(meter, read)
	if err != nil {
		return nil, err
	}
	registered, err := meter.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		s := stats()
		for _, one := range read {
			out.ObserveFloat64(made[one.metric], one.value(s), metric.WithAttributes(one.labels...))
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
	value  func(watch.Stats) float64
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
		{metric: "easel.watches.open", value: func(s watch.Stats) float64 { return float64(s.Watches) }},
		{metric: "easel.generations.active", value: func(s watch.Stats) float64 { return float64(s.Active) }},
		{metric: "easel.generations.stalest", value: func(s watch.Stats) float64 { return s.Stalest.Seconds() }},
		{metric: "easel.credentials.paused", value: func(s watch.Stats) float64 { return float64(s.Paused) }},
		{metric: "easel.polls.ready", value: func(s watch.Stats) float64 { return s.Ready }},
		{metric: "easel.polls.rate", value: func(s watch.Stats) float64 { return s.Rate }},
		{metric: "easel.updates.conflated", value: func(s watch.Stats) float64 { return float64(s.Conflated) }},
		{metric: "easel.updates.regressed", value: func(s watch.Stats) float64 { return float64(s.Regressions) }},
		{metric: "easel.polls.unshared", value: func(s watch.Stats) float64 { return s.Unshared }},
		{"easel.polls.claims", func(s watch.Stats) float64 { return float64(s.Claimed) }, with(claimed, "granted")},
		{"easel.polls.claims", func(s watch.Stats) float64 { return float64(s.Refused) }, with(claimed, "refused")},
		{metric: "easel.polls.taken", value: func(s watch.Stats) float64 { return float64(s.Taken) }},
		{metric: "easel.credentials.away", value: func(s watch.Stats) float64 { return float64(s.Away) }},
	}
	for i, name := range condition.Values {
		all = append(all, reading{"easel.credentials", func(s watch.Stats) float64 { return float64(s.Conditions[i]) }, with(condition, name)})
	}
	return all
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
