package telemetry

import (
	"context"
	"io"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// context of a caller, recorded or not.
func callerContext(t *testing.T, flags trace.TraceFlags) context.Context {
	return trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, Remote: true,
	}))
}

func TestTheEnvironmentAndLinksDecideTheSampling(t *testing.T) {
	recorded := trace.Link{SpanContext: trace.SpanContextFromContext(callerContext(t, trace.FlagsSampled)).WithRemote(false)}
	other := trace.Link{SpanContext: trace.SpanContextFromContext(callerContext(t, 0)).WithRemote(false)}
	remote := trace.Link{SpanContext: recorded.SpanContext.WithRemote(true)}
	for _, test := range []struct {
		sampler, arg string
		root, linked bool // a caller, recorded or not, changes nothing: D14
	}{
		{"", "", true, true},
		{"parentbased_always_on", "", true, true},
		{"always_on", "", true, true},
		{"always_off", "", false, false},
		{"traceidratio", "0", false, true},
		{"traceidratio", "1", true, true},
		{" TraceIDRatio ", " 0 ", false, true},
		{"always_on", "nonsense", true, true},
		{"parentbased_traceidratio", "0", false, true},
		{"parentbased_traceidratio", "1", true, true},
		{"parentbased_always_off", "", false, true},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", test.sampler)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", test.arg)
		sampler, err := samplerOfEnvironment()
		if err != nil {
			t.Fatal(err)
		}
		provider := sdk.NewTracerProvider(sdk.WithSampler(sampler))
		tracer := provider.Tracer("test")
		start := func(ctx context.Context, options ...trace.SpanStartOption) bool {
			_, span := tracer.Start(ctx, "span", options...)
			defer span.End()
			return span.IsRecording()
		}
		for what, pair := range map[string][2]bool{
			"a root":                        {start(t.Context()), test.root},
			"a root linked to a recorded":   {start(t.Context(), trace.WithLinks(other, recorded)), test.linked},
			"a root linked to another":      {start(t.Context(), trace.WithLinks(other)), test.root},
			"a root linked to a caller":     {start(t.Context(), trace.WithLinks(remote)), test.root},
			"a call of a recorded caller":   {start(callerContext(t, trace.FlagsSampled)), test.root},
			"a call of another caller":      {start(callerContext(t, 0)), test.root},
			"a linked call of another":      {start(callerContext(t, 0), trace.WithLinks(recorded)), test.root},
			"a root of a recorded caller's": {start(callerContext(t, trace.FlagsSampled), trace.WithNewRoot(), trace.WithLinks(recorded)), test.linked},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%q %q: %s is recorded: %v", test.sampler, test.arg, what, pair[0])
			}
		}
		_ = provider.Shutdown(t.Context())
	}
}

func TestASamplerThatThereIsNotIsRefusedByItsName(t *testing.T) {
	for _, test := range []struct{ sampler, arg, refused string }{
		{"unheard of", "", "OTEL_TRACES_SAMPLER must be always_on, "},
		{"jaeger_remote", "", "OTEL_TRACES_SAMPLER must be always_on, "},
		{"traceidratio", "nonsense", "OTEL_TRACES_SAMPLER_ARG must be a share from 0 to 1"},
		{"parentbased_traceidratio", "1.5", "OTEL_TRACES_SAMPLER_ARG must be a share from 0 to 1"},
		{"traceidratio", "NaN", "OTEL_TRACES_SAMPLER_ARG must be a share from 0 to 1"},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", test.sampler)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", test.arg)
		_, _, err := Start(t.Context(), Config{LogOutput: io.Discard})
		if err == nil || !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%q %q: %v", test.sampler, test.arg, err)
		}
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	_, end, err := Start(t.Context(), Config{LogOutput: io.Discard})
	if err != nil {
		t.Fatalf("where nothing is traced: %v", err)
	}
	_ = end(t.Context())
}
