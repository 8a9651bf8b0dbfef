package telemetry

import (
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/easel-grpc/easel/internal/watch"
)

func TestSpansOfDeliveredUpdatesAreLimitedPerSecond(t *testing.T) {
	exporter := recordSpans(t)
	synctest.Test(t, func(t *testing.T) {
		o, err := NewTracer()
		if err != nil {
			t.Fatal(err)
		}
		ctx := callerContext(t, trace.FlagsSampled)
		for _, pause := range []time.Duration{0, time.Second, time.Hour} {
			time.Sleep(pause)
			exporter.Reset()
			for range 3 * maxPushSpans {
				if told := o.Delivery(ctx, o.TraceRef(ctx), watch.Event{Update: &watch.Update{}}, nil); told != nil {
					told()
				}
			}
			if n := len(exporter.GetSpans()); n != maxPushSpans {
				t.Errorf("after %v, %d of %d pushes have a span", pause, n, 3*maxPushSpans)
			}
		}
	})
}
