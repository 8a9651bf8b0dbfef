package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// nowhere exports spans to nobody.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// atOnce answers requests without sending them.
type atOnce struct{ answer *http.Response }

func (a atOnce) RoundTrip(*http.Request) (*http.Response, error) {
	answer := *a.answer
	return &answer, nil
}

// BenchmarkTelemetryOfACall measures what one call pays for being traced and measured: its own
// span and that of its request upstream, up to where they wait to be exported.
func BenchmarkTelemetryOfACall(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"always": sdktrace.AlwaysSample(), "never": sdktrace.NeverSample()} {
		b.Run(name, func(b *testing.B) {
			traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(nowhere{}))
			meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()), sdkmetric.WithReader(sdkmetric.NewManualReader()))
			otel.SetTracerProvider(traces)
			otel.SetMeterProvider(meters)
			otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
			b.Cleanup(func() { _ = traces.Shutdown(context.Background()) })
			t, err := newTracing()
			if err != nil {
				b.Fatal(err)
			}
			transport := telemetry.UpstreamTransport(atOnce{&http.Response{StatusCode: http.StatusOK, Body: http.NoBody}})
			incoming := metadata.NewIncomingContext(context.Background(), metadata.Pairs(
				"authorization", "Bearer k", "content-type", "application/grpc", "user-agent", "grpc-go/1.85.0", ":authority", "localhost"))
			request := &easelv1.GetGenerationRequest{GenerationId: "gen_0123456789"}
			response := &easelv1.GetGenerationResponse{Generation: &easelv1.Generation{
				GenerationId: "gen_0123456789", ModelId: "studio/landscape", State: easelv1.State_STATE_SUCCEEDED, CostCents: new(int64),
			}}
			upstream, err := http.NewRequest(http.MethodGet, "http://localhost/generations/gen_0123456789", nil)
			if err != nil {
				b.Fatal(err)
			}
			upstream.Pattern = "GET /generations/{id}"
			ok := status.New(codes.OK, "")
			b.ReportAllocs()
			for b.Loop() {
				ctx, span := t.begin(incoming, "/easel.v1.GenerationService/GetGeneration", origin{peer: "127.0.0.1:5555"})
				span.enter()
				span.asked(request, false)
				answer, err := transport.RoundTrip(upstream.WithContext(ctx))
				if err != nil {
					b.Fatal(err)
				}
				_ = answer.Body.Close()
				span.answered(response)
				span.end(ok)
			}
		})
	}
	if !strings.HasPrefix(codeName(codes.OK), "OK") {
		b.Fatal("the code is not named")
	}
}
