package telemetry

import (
	"os"
	"strconv"

	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// samplerOfEnvironment is the sampler of OTEL_TRACES_SAMPLER, as the SDK would make it, with one
// more rule: see linked.
func samplerOfEnvironment() trace.Sampler {
	share := 1.0
	if parsed, err := strconv.ParseFloat(os.Getenv("OTEL_TRACES_SAMPLER_ARG"), 64); err == nil && parsed >= 0 && parsed <= 1 {
		share = parsed
	}
	switch os.Getenv("OTEL_TRACES_SAMPLER") {
	case "always_on":
		return trace.AlwaysSample()
	case "always_off":
		return trace.NeverSample()
	case "traceidratio":
		return linked{trace.TraceIDRatioBased(share)}
	case "parentbased_always_off":
		return linked{trace.ParentBased(trace.NeverSample())}
	case "parentbased_traceidratio":
		return linked{trace.ParentBased(trace.TraceIDRatioBased(share))}
	}
	return trace.ParentBased(trace.AlwaysSample())
}

// linked records each root span that is linked to a recorded span: where one watch of a hundred
// is traced, every poll that served it is traced too, and the links lead to recorded spans.
type linked struct{ trace.Sampler }

// ShouldSample implements trace.Sampler.
func (s linked) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	if !oteltrace.SpanContextFromContext(p.ParentContext).IsValid() {
		for _, link := range p.Links {
			if link.SpanContext.IsSampled() {
				return trace.SamplingResult{Decision: trace.RecordAndSample}
			}
		}
	}
	return s.Sampler.ShouldSample(p)
}
