package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	outageFailures = 3                // number of consecutive failed polls after which an outage begins; during an outage, polls run one at a time
	probeEvery     = time.Minute      // interval between polls while a shared API key is rejected
	maxPause       = 30 * time.Second // maximum pause during an outage
)

// health is the condition of the catalog for one credential, derived from the results of polls. It does not contain the
// pauses that the catalog requests, which the limiter tracks.
type health struct {
	least       time.Duration // minimum poll interval
	pausedUntil time.Time     // no poll starts before this time, because the catalog is unavailable or rejects a shared API key
	random      schedule.Source

	condition Condition
	failures  int // number of consecutive failed polls with the credential
	pauses    int // number of pauses in the current outage
	lastErr   string
	answered  time.Time
	read      time.Time // time of the last poll that returned data; a 404 response does not count
}

// recordSuccess records that the catalog responded to a poll. A 404 that shows that a generation is absent also counts.
func (h *health) recordSuccess(now time.Time) {
	h.failures, h.pauses, h.answered = 0, 0, now
	h.condition, h.lastErr = ConditionHealthy, ""
}

// recordFailure records a failed poll. It pauses polling if the catalog rejects a shared API key, or if the catalog is
// unavailable and at least outageFailures consecutive polls have failed.
func (h *health) recordFailure(err error, shared bool, now time.Time) {
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

// backOff pauses polling after outageFailures consecutive failures. Each pause is twice as long as the previous one, up to
// maxPause. A failure during a pause is ignored, because its request was sent before the pause.
func (h *health) backOff(now time.Time) {
	if h.failures < outageFailures || now.Before(h.pausedUntil) {
		return
	}
	h.pauses++
	pause := schedule.Backoff(h.pauses, h.least, maxPause)
	h.pausedUntil = now.Add(schedule.Jitter(pause, h.random.Draw()))
}
