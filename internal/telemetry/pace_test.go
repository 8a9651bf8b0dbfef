package telemetry

import (
	"testing"
	"time"
)

func TestAThousandPushesASecondHaveASpan(t *testing.T) {
	var p pace
	allowed := func(at time.Time) (n int) {
		for range 3 * mostPushSpans {
			if p.allows(at) {
				n++
			}
		}
		return n
	}
	at := time.Unix(1_800_000_000, 0)
	for _, next := range []time.Duration{0, time.Second, time.Minute} {
		if n := allowed(at.Add(next)); n != mostPushSpans {
			t.Errorf("%d of %d have one", n, 3*mostPushSpans)
		}
	}
	if p.allows(at.Add(time.Minute + 999*time.Millisecond)) {
		t.Error("one more has a span in the same second")
	}
}
