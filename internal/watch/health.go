package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	outageFailures = 3                // failures in a row after which the catalog is only probed
	probeEvery     = time.Minute      // between two tries with a held API key that was rejected
	maxPause       = 30 * time.Second // of our own in an outage
)

// health is the condition of the catalog for one credential, derived from the results of polls. The pauses that the catalog asks
// for are in the limiter.
type health struct {
	least  time.Duration // the shortest interval
	held   time.Time     // no poll before: the catalog is away, or rejects the API key
	random schedule.Source

	condition Condition
	failures  int // polls in a row, of any entry
	pauses    int // pauses in a row, in an outage
	lastErr   string
	answered  time.Time
	read      time.Time // when it has last answered a read with what was asked for
}

// succeeded notes that the catalog answered.
func (h *health) succeeded(now time.Time) {
	h.failures, h.pauses, h.answered = 0, 0, now
	h.condition, h.lastErr = ConditionHealthy, ""
}

// failed notes a failed poll, and slows down as the failure asks.
func (h *health) failed(err error, held bool, now time.Time) {
	if catalog.KindOf(err) == catalog.KindBusy {
		return // the catalog was not asked
	}
	h.failures++
	h.condition, h.lastErr = ConditionUnreachable, err.Error()
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited:
		h.condition = ConditionThrottled
	case catalog.KindCredentialRejected:
		h.condition = ConditionCredentialRejected
		if held {
			h.held = now.Add(probeEvery)
		}
	case catalog.KindUnavailable:
		h.backOff(now)
	}
}

// backOff pauses in an outage, each time for longer. The failure of a request from before the pause tells
// nothing new.
func (h *health) backOff(now time.Time) {
	if h.failures < outageFailures || now.Before(h.held) {
		return
	}
	h.pauses++
	pause := schedule.Backoff(h.pauses, h.least, maxPause)
	h.held = now.Add(schedule.Jitter(pause, h.random.Draw()))
}
