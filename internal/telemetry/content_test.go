package telemetry

import (
	"maps"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/easel-grpc/easel/internal/ledger"
)

func TestResultCopyMetricsAreExported(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(tableView())))
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	done := CopyCounts{Copied: 1, Failures: 2, Bytes: 3, Reads: 4, Rescued: 5}
	known := ledger.Reading{Summary: ledger.Summary{Contents: ledger.ContentSummary{Waiting: 6, Failed: 7, Oldest: 8 * time.Second}}}
	stop, err := Measure(Readings{Copies: func() CopyCounts { return done }, Ledger: func() ledger.Reading { return known }})
	if err != nil {
		t.Fatal(err)
	}
	got := collectSeries(t, reader)
	maps.DeleteFunc(got, func(series string, _ float64) bool { return !strings.HasPrefix(series, "easel.content.") })
	want := map[string]float64{
		"easel.content.copies easel.content.outcome=copied": 1, "easel.content.copies easel.content.outcome=failed": 2, "easel.content.copied ": 3,
		"easel.content.reads easel.content.source=copy": 4, "easel.content.reads easel.content.source=catalog": 5,
		"easel.content.waiting ": 6, "easel.content.failed ": 7, "easel.content.oldest_waiting ": 8,
	}
	for series, value := range want {
		if got[series] != value {
			t.Errorf("%s is %v, want %v", series, got[series], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("unexpected series: %v", got)
	}
	stop()
	if left := collectSeries(t, reader); len(left) > 0 {
		t.Errorf("series are still measured: %v", left)
	}
}

// collectSeries returns the value of each series, keyed by its name and labels.
func collectSeries(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			var points []metricdata.DataPoint[float64]
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				points = data.DataPoints
			case metricdata.Sum[float64]:
				points = data.DataPoints
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					points = append(points, metricdata.DataPoint[float64]{Attributes: p.Attributes, Value: float64(p.Value)})
				}
			}
			for _, p := range points {
				values[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
			}
		}
	}
	return values
}
