package telemetry

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// cleanExporter cleans spans before they are exported. It makes each string valid UTF-8, because the exporter drops a
// complete batch if one string is invalid: one caller's path or header could cause the loss of other callers' spans. It
// also removes the text of errors from the catalog, because the text may repeat received data that contains the API key.
// The kind of the error remains as an attribute.
type cleanExporter struct{ trace.SpanExporter }

// ExportSpans implements trace.SpanExporter.
func (e cleanExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	clean := make([]trace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		clean[i] = cleanSpan{span}
	}
	return e.SpanExporter.ExportSpans(ctx, clean)
}

// cleanSpan is a span with clean attributes and a clean status. Its name needs no cleaning, because it is a constant.
type cleanSpan struct{ trace.ReadOnlySpan }

// Attributes implements trace.ReadOnlySpan.
func (s cleanSpan) Attributes() []attribute.KeyValue {
	all := slices.Clone(s.ReadOnlySpan.Attributes())
	for i, one := range all {
		if one.Value.Type() == attribute.STRING && !utf8.ValidString(one.Value.AsString()) {
			all[i].Value = attribute.StringValue(validText(one.Value.AsString()))
		}
	}
	return all
}

// Status implements trace.ReadOnlySpan.
func (s cleanSpan) Status() trace.Status {
	status := s.ReadOnlySpan.Status()
	if s.SpanKind() == oteltrace.SpanKindClient {
		status.Description = ""
	}
	status.Description = validText(status.Description)
	return status
}

func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
