package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	outageFailures = 3                // number of consecutive failed polls that count as an outage; during an outage, polls run one at a time
	probeEvery     = time.Minute      // interval between polls while a shared API key is rejected
	maxPause       = 30 * time.Second // maximum pause during an outage
)

// health is the condition of the catalog for one credential, derived from the results of polls. The limiter tracks the pauses
// that the catalog requests.
type health struct {
	least       time.Duration // minimum poll interval
	pausedUntil time.Time     // no poll before this time, because the catalog is unavailable or rejects the API key
	random      schedule.Source

	condition Condition
	failures  int // number of consecutive failed polls, over all generations
	pauses    int // number of pauses in the current outage
	lastErr   string
	answered  time.Time
	read      time.Time // time of the last successful poll
}

// succeeded records that the catalog responded.
func (h *health) succeeded(now time.Time) {
	h.failures, h.pauses, h.answered = 0, 0, now
	h.condition, h.lastErr = ConditionHealthy, ""
}

// failed records a failed poll. It pauses polling during an outage, or while a shared API key is rejected.
func (h *health) failed(err error, shared bool, now time.Time) {
	if catalog.KindOf(err) == catalog.KindBusy {
		return // the request was not sent
	}
	h.failures++
	h.condition, h.lastErr = ConditionUnreachable, err.Error()
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited:
		h.condition = ConditionThrottled
	case catalog.KindCredentialRejected:
		h.condition = ConditionCredentialRejected
		if shared {
			h.pausedUntil = now.Add(probeEvery)
		}
	case catalog.KindUnavailable:
		h.backOff(now)
	}
}

// backOff pauses polling during an outage. The pauses double, up to maxPause. Failures of requests that were sent before the
// current pause are ignored.
func (h *health) backOff(now time.Time) {
	if h.failures < outageFailures || now.Before(h.pausedUntil) {
		return
	}
	h.pauses++
	pause := schedule.Backoff(h.pauses, h.least, maxPause)
	h.pausedUntil = now.Add(schedule.Jitter(pause, h.random.Draw()))
}
