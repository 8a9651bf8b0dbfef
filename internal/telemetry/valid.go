package telemetry

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
)

// validExporter makes UTF-8 of texts that are not. OTLP takes no other text, and the exporter
// drops a whole batch for one: a caller could drop the spans of others by a path or a header.
type validExporter struct{ trace.SpanExporter }

// ExportSpans implements trace.SpanExporter.
func (e validExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	valid := make([]trace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		valid[i] = validSpan{span}
	}
	return e.SpanExporter.ExportSpans(ctx, valid)
}

// validSpan is a span whose attributes and status are valid. Its name is a constant.
type validSpan struct{ trace.ReadOnlySpan }

// Attributes implements trace.ReadOnlySpan.
func (s validSpan) Attributes() []attribute.KeyValue {
	all := s.ReadOnlySpan.Attributes()
	if !slices.ContainsFunc(all, invalid) {
		return all
	}
	all = slices.Clone(all)
	for i, one := range all {
		if invalid(one) {
			all[i].Value = attribute.StringValue(validText(one.Value.AsString()))
		}
	}
	return all
}

// Status implements trace.ReadOnlySpan.
func (s validSpan) Status() trace.Status {
	status := s.ReadOnlySpan.Status()
	status.Description = validText(status.Description)
	return status
}

func invalid(a attribute.KeyValue) bool {
	return a.Value.Type() == attribute.STRING && !utf8.ValidString(a.Value.AsString())
}

func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
