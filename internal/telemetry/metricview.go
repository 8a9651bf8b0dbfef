package telemetry

import (
	"strings"

	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
)

// tableView returns a view that keeps the metrics in [Table], and sets their units, descriptions, labels and buckets
// from the table. It drops all other metrics, including those from libraries.
func tableView() metric.View {
	rows := map[string]Metric{}
	for _, row := range Table {
		if !row.Scraped {
			rows[row.Name] = row
		}
	}
	return func(i metric.Instrument) (metric.Stream, bool) {
		row, ok := rows[i.Name]
		if !ok {
			return metric.Stream{Aggregation: metric.AggregationDrop{}}, true
		}
		var labels []attribute.Key
		for _, label := range row.Labels {
			labels = append(labels, attribute.Key(label.Name))
		}
		stream := metric.Stream{
			Name: row.Name, Description: row.Text, Unit: row.Unit,
			AttributeFilter: attribute.NewAllowKeysFilter(labels...),
		}
		if row.Kind == Histogram {
			stream.Aggregation = metric.AggregationExplicitBucketHistogram{Boundaries: row.Buckets}
		}
		return stream, true
	}
}

// Prometheus returns the metric's name in Prometheus. For a histogram, this is the name of the metric family.
func (m Metric) Prometheus() string {
	if m.Scraped {
		return m.Name
	}
	types := map[Kind]otlptranslator.MetricType{
		Counter: otlptranslator.MetricTypeMonotonicCounter, UpDown: otlptranslator.MetricTypeNonMonotonicCounter,
		Gauge: otlptranslator.MetricTypeGauge, Histogram: otlptranslator.MetricTypeHistogram,
	}
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	name, _ := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: types[m.Kind]}) // the error is always nil, because a test builds every name
	return name
}

// Prometheus returns the label's name in Prometheus.
func (l Label) Prometheus() string { return strings.ReplaceAll(l.Name, ".", "_") }
