package watch

import (
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/budget"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	outageFailures = 3                // failures in a row after which the catalog is only probed
	probeEvery     = time.Minute      // between two tries with a held API key that was rejected
	maxPause       = 30 * time.Second // of our own in an outage
)

// health is how the catalog behaves towards a credential. It slows the budget down.
type health struct {
	budget *budget.Budget
	least  time.Duration // the shortest interval
	random schedule.Source

	condition Condition
	failures  int // polls in a row, of any entry
	pauses    int // pauses in a row, in an outage
	lastErr   string
	answered  time.Time
	failedAt  time.Time
	read      time.Time // when it has last answered a read with what was asked for
}

// succeeded notes that the catalog answered. An answer to a request from before a pause does not end the
// pause.
func (h *health) succeeded(now time.Time) {
	h.failures, h.pauses, h.answered = 0, 0, now
	if h.condition != ConditionThrottled || !now.Before(h.budget.Paused()) {
		h.condition, h.lastErr = ConditionHealthy, ""
	}
}

// heard notes that the catalog has answered another process. Failures from before are over, unless they have asked for
// a pause.
func (h *health) heard(at time.Time) {
	if h.answered = latest(h.answered, at); at.After(h.failedAt) && !at.Before(h.budget.Paused()) {
		h.succeeded(h.answered)
	}
}

// failed notes a failed poll, and slows down as the failure asks.
func (h *health) failed(err error, held bool, now time.Time) {
	if catalog.KindOf(err) == catalog.KindBusy {
		return // the catalog was not asked
	}
	h.failures++
	h.failedAt = now
	h.condition, h.lastErr = ConditionUnreachable, err.Error()
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited:
		h.throttled(err, now)
	case catalog.KindCredentialRejected:
		h.condition = ConditionCredentialRejected
		if held {
			h.budget.Pause(now, now.Add(probeEvery))
		}
	case catalog.KindUnavailable:
		h.backOff(now)
	}
}

// throttled slows down after a 429 of a poll or a call.
func (h *health) throttled(err error, now time.Time) {
	h.condition, h.lastErr = ConditionThrottled, err.Error()
	var detail *catalog.Error
	errors.As(err, &detail)
	wait := detail.RetryAfter
	if wait == 0 {
		wait = schedule.Backoff(max(h.failures, 1), h.least, maxPause)
	}
	// Later than asked, never sooner: a tenth is the jitter.
	h.budget.Throttled(now, wait+time.Duration(h.random.Draw()*float64(wait)/10))
}

// backOff pauses in an outage, each time for longer. The failure of a request from before the pause tells
// nothing new.
func (h *health) backOff(now time.Time) {
	if h.failures < outageFailures || now.Before(h.budget.Paused()) {
		return
	}
	h.pauses++
	pause := schedule.Backoff(h.pauses, h.least, maxPause)
	h.budget.Pause(now, now.Add(schedule.Jitter(pause, h.random.Draw())))
}
