package server_test

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestTheDelayOfDetectionIsMeasuredAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		before := otel.GetMeterProvider()
		otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
		t.Cleanup(func() { otel.SetMeterProvider(before) })
		s := newStack(t, func(o *options) { o.memory, o.sandbox.Speed, o.hub = true, 1, watch.Config{Seed: 3} })
		c := grpcCaller{s, s.key}
		var seen time.Duration
		const renders = 60
		for n := range renders {
			g := create(t, c, order(t, picture, "order-"+strconv.Itoa(n), "a lake"))
			err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()}, func(m *easelv1.WatchGenerationResponse) {
				if g := m.GetUpdate().GetGeneration(); g.GetTerminal() {
					seen += time.Since(g.GetTerminalTime().AsTime()) // by the sandbox's clock, which is ours
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the last one is measured when it was told
		told, count := delays(t, reader)
		t.Logf("%d renders were seen to end %v late, and %d were estimated to be %v late", renders, seen/renders, count, told/renders)
		if count != renders || seen <= 0 || math.Abs(told.Seconds()/seen.Seconds()-1) > 0.25 {
			t.Error("the estimate is not what was measured")
		}
	})
}

// delays adds up what was measured.
func delays(t *testing.T, reader sdkmetric.Reader) (sum time.Duration, count uint64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "easel.detection.delay" {
				continue
			}
			for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
				sum += time.Duration(point.Sum * float64(time.Second))
				count += point.Count
			}
		}
	}
	return sum, count
}
