package watch

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestFailureDuringPauseDoesNotExtendPause(t *testing.T) {
	h, now := health{least: time.Second}, time.Now()
	unavailable := &catalog.Error{Kind: catalog.KindUnavailable}
	for range outageFailures {
		h.recordFailure(unavailable, false, now)
	}
	pause := h.pausedUntil
	if !pause.After(now) {
		t.Fatalf("after %d failures there is no pause", outageFailures)
	}
	for range 5 { // failures of requests that were sent before the pause
		h.recordFailure(unavailable, false, now.Add(time.Millisecond))
	}
	if h.pausedUntil != pause {
		t.Errorf("late failures lengthened the pause by %v", h.pausedUntil.Sub(pause))
	}
	h.recordFailure(unavailable, false, pause)
	if length := h.pausedUntil.Sub(pause); length < 1500*time.Millisecond {
		t.Errorf("the second pause lasts %v, want about 2 s", length)
	}
}
