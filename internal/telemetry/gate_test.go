package telemetry

import (
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/easel-grpc/easel/internal/limiter"
)

func TestTheGatesAreReadTogether(t *testing.T) {
	now := time.Now()
	said := map[string]float64{}
	readGates(map[string]limiter.State{
		"a": {
			Paused: now.Add(30 * time.Second), Why: limiter.Throttled,
			Waiting: []limiter.Waiting{{Owner: "studio", Class: limiter.Order, Count: 3, Since: now.Add(-9 * time.Second)}, {Owner: "polls", Class: limiter.Poll, Count: 1, Since: now}},
		},
		"b": {Capped: true, Waiting: []limiter.Waiting{{Class: limiter.Order, Count: 2, Since: now}, {Owner: "studio", Class: limiter.Order, Count: 1, Since: now}}},
		"c": {Paused: now.Add(-time.Second), Probing: true, Why: limiter.Paused},
	}, now).observe(func(name string, value float64, labels ...attribute.KeyValue) {
		for _, l := range labels {
			name += " " + l.Value.AsString()
		}
		said[name] = value
	})
	for name, want := range map[string]float64{
		"easel.gate.waiting studio order": 4, "easel.gate.waiting polls poll": 1, "easel.gate.waiting forwarded order": 2, "easel.gate.wait": 9,
		"easel.gate.closed rate_limited": 1, "easel.gate.closed unavailable": 1, "easel.gate.closed daily_cap": 1, "easel.gate.opens": 30,
	} {
		if got, ok := said[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestOwnersThatWaitAreNamedUpToALimit(t *testing.T) {
	var all []limiter.Waiting
	for i := range 3 * measuredOwners {
		all = append(all, limiter.Waiting{Owner: fmt.Sprint(i), Count: 1, Since: time.Now()})
	}
	read := readGates(map[string]limiter.State{"a": {Waiting: all}}, time.Now())
	if len(read.waiting) != measuredOwners+1 || read.waiting[line{"other", "order"}] != 2*measuredOwners {
		t.Errorf("%d owners are named, and %d wait besides", len(read.waiting), read.waiting[line{"other", "order"}])
	}
}
