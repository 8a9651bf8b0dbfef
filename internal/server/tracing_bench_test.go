package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// atOnce answers requests without sending them.
type atOnce struct{ answer *http.Response }

func (a atOnce) RoundTrip(*http.Request) (*http.Response, error) {
	answer := *a.answer
	return &answer, nil
}

// BenchmarkTelemetryOfACall measures what one call pays for being traced and measured: its own
// span and that of its request upstream, up to where they wait to be exported.
func BenchmarkTelemetryOfACall(b *testing.B) {
	for _, sampler := range []string{"always_on", "always_off"} {
		b.Run(sampler, func(b *testing.B) {
			b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // nobody is there
			b.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "100")
			b.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
			b.Setenv("OTEL_TRACES_SAMPLER", sampler)
			_, stop, err := telemetry.Start(b.Context(), telemetry.Config{LogOutput: io.Discard})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = stop(context.Background()) })
			t, err := newTracing()
			if err != nil {
				b.Fatal(err)
			}
			transport := telemetry.UpstreamTransport(atOnce{&http.Response{StatusCode: http.StatusOK, Body: http.NoBody}}, slog.New(slog.DiscardHandler))
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
			const method = easelv1.GenerationService_GetGeneration_FullMethodName
			ok, calls := status.New(codes.OK, ""), t.handler(method)
			b.ReportAllocs()
			for b.Loop() {
				tagged, began := calls.TagRPC(incoming, &stats.RPCTagInfo{FullMethodName: method}), time.Now()
				ctx, span := t.begin(tagged, method, "127.0.0.1:5555")
				span.enter(namesOf(request), false)
				answer, err := transport.RoundTrip(upstream.WithContext(ctx))
				if err != nil {
					b.Fatal(err)
				}
				_ = answer.Body.Close()
				span.answer = response
				span.end(ok, 0)
				calls.HandleRPC(tagged, &stats.End{BeginTime: began, EndTime: time.Now()})
			}
		})
	}
}
