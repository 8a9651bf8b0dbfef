package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/watch"
)

// observe records the value of a series at a collection. The metric must be in the table.
type observe func(name string, value float64, labels ...attribute.KeyValue)

// Readings are the sources of metrics at each collection. They do not query other processes. A nil source is omitted.
type Readings struct {
	Hub      func() watch.Stats
	Limiters func() map[string]limiter.State // states by tenant
	Ledger   func() ledger.Reading
	Copies   func() CopyCounts     // copies of results; requires Ledger
	Settings func() map[string]int // number of files or issuers that can't be loaded, by setting
}

// Measure registers the metrics that are read at each collection. The returned function unregisters them.
func Measure(r Readings) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, one := range stops {
			one()
		}
	}
	for _, source := range []struct {
		name  Source
		there bool
		read  func(observe)
	}{
		{Hub, r.Hub != nil, func(value observe) { readHub(r.Hub(), value) }},
		{Limiters, r.Limiters != nil, func(value observe) { readLimiters(r.Limiters(), time.Now()).observe(value) }},
		{Book, r.Ledger != nil, func(value observe) { readLedger(r.Ledger(), value) }},
		{Contents, r.Copies != nil, func(value observe) { readContents(r.Copies(), r.Ledger().Contents, value) }},
		{Settings, r.Settings != nil, func(value observe) { readSettings(r.Settings(), value) }},
	} {
		if !source.there {
			continue
		}
		one, err := measured(source.name, source.read)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, one)
	}
	return stop, nil
}

func readSettings(broken map[string]int, value observe) {
	for name, n := range broken {
		value("easel.setting.broken", float64(n), setting.is(name))
	}
}

// measured registers the metrics of a source. The returned function unregisters them.
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

// instruments creates the instruments of a source, each of the kind in the table.
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

// is returns the attribute with a value of the label.
func (l Label) is(value string) attribute.KeyValue { return attribute.String(l.Name, value) }
