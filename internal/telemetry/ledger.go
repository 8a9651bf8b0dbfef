package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/easel-grpc/easel/internal/ledger"
)

// measuredOwners is how many owners have metrics of their own, at most.
const measuredOwners = 200

// MeasureLedger measures the book of orders at each collection, until stop is called, and the outcomes of attempts to
// send events, by owner and outcome. read and events ask no database.
func MeasureLedger(read func() ledger.Reading, events func() map[string]map[string]int64) (stop func(), err error) {
	meter := otel.Meter(scope)
	gauges := map[string]metric.Float64ObservableGauge{}
	counters := map[string]metric.Float64ObservableCounter{}
	var all []metric.Observable
	for _, row := range Table {
		var fault error
		switch {
		case !row.Ledger || row.Kind == Histogram:
			continue
		case row.Kind == Counter:
			counters[row.Name], fault = meter.Float64ObservableCounter(row.Name)
			all = append(all, counters[row.Name])
		default:
			gauges[row.Name], fault = meter.Float64ObservableGauge(row.Name)
			all = append(all, gauges[row.Name])
		}
		err = errors.Join(err, fault)
	}
	if err != nil {
		return nil, err
	}
	registered, err := meter.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		l := read()
		gauge := func(name string, value float64, labels ...attribute.KeyValue) {
			out.ObserveFloat64(gauges[name], value, metric.WithAttributes(labels...))
		}
		up := 0.0
		if l.Up {
			up = 1
		}
		gauge("easel.ledger.up", up)
		gauge("easel.ledger.orders.unknown", float64(l.Unknown))
		gauge("easel.ledger.orders.oldest", l.OldestUnknown.Seconds())
		out.ObserveFloat64(counters["easel.ledger.faults"], float64(l.Faults))
		out.ObserveFloat64(counters["easel.ledger.dearer"], float64(l.Dearer))
		for _, o := range l.Owners[:min(len(l.Owners), measuredOwners)] {
			measureOwner(o, gauge)
		}
		for _, e := range l.Events[:min(len(l.Events), measuredOwners)] {
			gauge("easel.events.pending", float64(e.Pending), with(owner, e.Owner)...)
			gauge("easel.events.oldest", e.Oldest.Seconds(), with(owner, e.Owner)...)
		}
		for name, outcomes := range events() {
			for outcome, n := range outcomes {
				labels := append(with(owner, name), with(eventOutcome, outcome)...)
				out.ObserveFloat64(counters["easel.events"], float64(n), metric.WithAttributes(labels...))
			}
		}
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("measure the ledger: %w", err)
	}
	return func() {
		if err := registered.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// measureOwner measures the money of an owner.
func measureOwner(o ledger.OwnerSummary, gauge func(string, float64, ...attribute.KeyValue)) {
	name := with(owner, o.Owner)
	for i, cents := range []int64{o.SpentCents, o.RefundedCents, o.ReservedCents, o.UnconfirmedCents} {
		gauge("easel.ledger.cents", float64(cents), append(slices.Clone(name), with(money, money.Values[i])...)...)
	}
	for _, b := range o.Budgets {
		labels := append(slices.Clone(name), with(window, b.Period)...)
		gauge("easel.ledger.budget.limit", float64(b.LimitCents), labels...)
		gauge("easel.ledger.budget.left", float64(b.LeftCents()), labels...)
	}
}
