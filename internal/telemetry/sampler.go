package telemetry

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const (
	samplerVariable = "OTEL_TRACES_SAMPLER"
	shareVariable   = "OTEL_TRACES_SAMPLER_ARG"
)

// samplerOfEnvironment is the sampler of OTEL_TRACES_SAMPLER, as the SDK would make it, with two
// more rules: see linked and parentBased. What the SDK would log and ignore is an error.
func samplerOfEnvironment() (trace.Sampler, error) {
	kind := strings.ToLower(strings.TrimSpace(os.Getenv(samplerVariable)))
	share := 1.0
	if text := strings.TrimSpace(os.Getenv(shareVariable)); text != "" && strings.HasSuffix(kind, "traceidratio") {
		parsed, err := strconv.ParseFloat(text, 64)
		if err != nil || !(parsed >= 0 && parsed <= 1) {
			return nil, fmt.Errorf("%s must be a share from 0 to 1, such as 0.1", shareVariable)
		}
		share = parsed
	}
	switch kind {
	case "always_on":
		return trace.AlwaysSample(), nil
	case "always_off":
		return trace.NeverSample(), nil
	case "traceidratio":
		return linked{trace.TraceIDRatioBased(share)}, nil
	case "parentbased_always_off":
		return linked{parentBased(trace.NeverSample())}, nil
	case "parentbased_traceidratio":
		return linked{parentBased(trace.TraceIDRatioBased(share))}, nil
	case "", "parentbased_always_on":
		return parentBased(trace.AlwaysSample()), nil
	}
	return nil, fmt.Errorf("%s must be always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or parentbased_traceidratio", samplerVariable)
}

// parentBased does as a parent of this process does. A caller does not decide how much is recorded here: below
// its span the root decides, and the trace keeps its id.
func parentBased(root trace.Sampler) trace.Sampler {
	return trace.ParentBased(root, trace.WithRemoteParentSampled(root), trace.WithRemoteParentNotSampled(root))
}

// linked records each root span that is linked to a recorded span: where one watch of a hundred
// is traced, every poll that served it is traced too, and the links lead to recorded spans.
type linked struct{ trace.Sampler }

// ShouldSample implements trace.Sampler.
func (s linked) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	if !oteltrace.SpanContextFromContext(p.ParentContext).IsValid() {
		for _, link := range p.Links {
			if link.SpanContext.IsSampled() && !link.SpanContext.IsRemote() {
				return trace.SamplingResult{Decision: trace.RecordAndSample}
			}
		}
	}
	return s.Sampler.ShouldSample(p)
}
