package telemetry

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// observe tells the value of a series at a collection. The metric is one of the table.
type observe func(name string, value float64, labels ...attribute.KeyValue)

// measured has the metrics of a source read at each collection, until stop is called.
func measured(from Source, read func(observe)) (stop func(), err error) {
	meter := otel.Meter(scope)
	made, all, err := instruments(meter, from)
	if err != nil {
		return nil, err
	}
	registered, err := meter.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		read(func(name string, value float64, labels ...attribute.KeyValue) {
			out.ObserveFloat64(made[name], value, metric.WithAttributes(labels...))
		})
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("measure the %s: %w", from, err)
	}
	return func() {
		if err := registered.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// instruments makes those of a source, each of the kind that the table has.
func instruments(meter metric.Meter, from Source) (made map[string]metric.Float64Observable, all []metric.Observable, err error) {
	made = map[string]metric.Float64Observable{}
	for _, row := range Table {
		if row.From != from {
			continue
		}
		var one metric.Float64Observable
		var fault error
		switch row.Kind {
		case Counter:
			one, fault = meter.Float64ObservableCounter(row.Name)
		case UpDown:
			one, fault = meter.Float64ObservableUpDownCounter(row.Name)
		default:
			one, fault = meter.Float64ObservableGauge(row.Name)
		}
		made[row.Name], all, err = one, append(all, one), errors.Join(err, fault)
	}
	return made, all, err
}

// is gives a label its value.
func (l Label) is(value string) attribute.KeyValue { return attribute.String(l.Name, value) }
