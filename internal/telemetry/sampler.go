package telemetry

import (
	"os"
	"strconv"

	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// samplerOfEnvironment is what OTEL_TRACES_SAMPLER names, as the SDK would read it, with one
// rule more: see linked.
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

// linked records a root that is linked to a recorded span, whatever else decides: where one
// watch of a hundred is traced, so is every poll that served it, and a click on the link leads
// somewhere.
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
