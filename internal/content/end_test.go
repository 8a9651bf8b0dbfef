package content_test

import (
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// However many wait for the end of one render to be written down, one asks the book for all of them.
func TestManyWhoAwaitOneEndAskTheBookOnce(t *testing.T) {
	inStudio(t, func(s *studio) {
		asked := tracetest.NewSpanRecorder() // each question to the book has a span
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(asked))
		s.order("g1")
		awaitAll := func() (took time.Duration, questions int) {
			began, before := time.Now(), len(asked.Ended())
			var all sync.WaitGroup
			for range 100 {
				ctx, span := provider.Tracer("").Start(s.Context(), "await")
				all.Go(func() {
					defer span.End()
					s.results.AwaitEnd(ctx, "g1")
				})
			}
			all.Wait()
			return time.Since(began), len(asked.Ended()) - before - 100
		}
		if took, questions := awaitAll(); took < time.Second || took > 3*time.Second || questions == 0 || questions > 20 {
			s.Errorf("of an end that does not come they asked %d times within %v", questions, took)
		}
		time.AfterFunc(time.Second, func() { s.observe("g1", lifecycle.Observation{Status: lifecycle.Failed}) })
		if took, questions := awaitAll(); took < time.Second || took > 1700*time.Millisecond || questions > 20 {
			s.Errorf("of an end after a second they asked %d times within %v", questions, took)
		}
	})
}
