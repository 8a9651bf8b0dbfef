package telemetry

import (
	"context"
	"io"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// callerContext returns a context with a trace that the caller has started.
func callerContext(t *testing.T, flags trace.TraceFlags) context.Context {
	return trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, Remote: true,
	}))
}

func TestSamplingFollowsCallerUnlessConfiguredOtherwise(t *testing.T) {
	for _, test := range []struct {
		sampler, arg            string
		root, sampled, unwanted bool // whether a call is recorded for a caller without a trace, with a sampled trace, and with an unsampled trace
	}{
		{"", "", true, true, false},
		{"parentbased_always_on", "", true, true, false},
		{"parentbased_always_off", "", false, true, false},
		{"parentbased_traceidratio", "0", false, true, false},
		{"always_on", "", true, true, true},
		{"always_off", "", false, false, false},
		{"traceidratio", "0", false, false, false},
	} {
		t.Run(test.sampler, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", test.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", test.arg)
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1")
			startTelemetry(t, Config{LogOutput: io.Discard})
			for name, span := range map[string]struct {
				ctx  context.Context
				want bool
			}{
				"a root span":                  {t.Context(), test.root},
				"a call in a sampled trace":    {callerContext(t, trace.FlagsSampled), test.sampled},
				"a call in an unsampled trace": {callerContext(t, 0), test.unwanted},
			} {
				_, made := otel.Tracer("test").Start(span.ctx, "span")
				if made.IsRecording() != span.want {
					t.Errorf("%s: IsRecording returned %v", name, made.IsRecording())
				}
			}
		})
	}
}
