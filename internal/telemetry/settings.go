package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// MeasureSettings measures at each collection how much of a setting can't be taken over, by setting, until stop is called.
func MeasureSettings(broken func() map[string]int) (stop func(), err error) {
	meter := otel.Meter(scope)
	gauge, err := meter.Int64ObservableGauge("easel.settings.broken")
	if err != nil {
		return nil, err
	}
	registered, err := meter.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		for name, n := range broken() {
			out.ObserveInt64(gauge, int64(n), metric.WithAttributes(attribute.String(setting.Name, name)))
		}
		return nil
	}, gauge)
	if err != nil {
		return nil, fmt.Errorf("measure the settings: %w", err)
	}
	return func() {
		if err := registered.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}
