package telemetry

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/easel-grpc/easel/internal/limiter"
)

func TestLimiterMetricsCombineAllLimiters(t *testing.T) {
	now := time.Now()
	said := map[string]float64{}
	readLimiters(map[string]limiter.State{
		"a": {
			Closed: true, Paused: now.Add(30 * time.Second), Reason: limiter.Throttled,
			Waiting: []limiter.Waiting{{Owner: "studio", Class: limiter.Order, Count: 3, Since: now.Add(-9 * time.Second)}, {Owner: "polls", Class: limiter.Poll, Count: 1, Since: now}},
		},
		"b": {Capped: true, Waiting: []limiter.Waiting{{Class: limiter.Order, Count: 2, Since: now}, {Owner: "studio", Class: limiter.Order, Count: 1, Since: now}}},
		"c": {Closed: true, Paused: now.Add(-time.Second), Reason: limiter.Unavailable},
	}, now).observe(func(name string, value float64, labels ...attribute.KeyValue) {
		for _, l := range labels {
			name += " " + l.Value.AsString()
		}
		said[name] = value
	})
	for name, want := range map[string]float64{
		"easel.limiter.waiting studio order": 4, "easel.limiter.waiting polls poll": 1, "easel.limiter.waiting forwarded order": 2, "easel.limiter.wait": 9,
		"easel.limiter.closed rate_limited": 1, "easel.limiter.closed unavailable": 1, "easel.limiter.closed daily_cap": 1, "easel.limiter.opens": 30,
	} {
		if got, ok := said[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
