package watch

import (
	"context"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Recorder records states in the ledger.
type Recorder interface {
	// Record records states that were observed with one credential, at most one state of each generation. It returns the IDs of
	// the generations that need no retry, either because their states are recorded, or because they have no orders. The hub
	// passes the remaining states again later, so recording a state twice must have no additional effect. The hub holds no lock
	// during the call.
	Record(ctx context.Context, cred catalog.Credential, seen []Sighting) (recorded map[string]bool)
}

// noRecorder is a [Recorder] that records nothing, for a hub without a ledger.
type noRecorder struct{}

func (noRecorder) Record(_ context.Context, _ catalog.Credential, seen []Sighting) (recorded map[string]bool) {
	recorded = map[string]bool{}
	for _, s := range seen {
		recorded[s.ID] = true
	}
	return recorded
}

const (
	recordTimeout  = time.Second      // maximum time for which subscribers wait until a state is recorded in the ledger
	retryTimeout   = 10 * time.Second // timeout of a retry; longer than recordTimeout, because no subscriber waits for a retry
	recordRetry    = time.Second      // initial delay before recording is retried; doubles after each failure
	maxRecordRetry = 30 * time.Second // maximum delay before recording is retried
)

// finishPoll records the new states from a response, and then notifies the subscribers. If the states are not recorded within
// recordTimeout, the subscribers are notified anyway.
func (t *tenant) finishPoll(ctx context.Context, result *pollResult) {
	if len(result.changed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	t.recordStates(ctx, result.changed)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range result.changed {
		t.publishChange(e)
	}
}

// recordStates writes the unrecorded states of generations to the ledger. The states of each generation are written in order,
// oldest first. If a state cannot be recorded, a retry is scheduled.
func (t *tenant) recordStates(ctx context.Context, generations []*generation) {
	for len(generations) > 0 {
		generations = t.recordOldest(ctx, generations)
	}
}

// recordOldest records the oldest unrecorded state of each generation. It returns the generations that have further unrecorded
// states.
func (t *tenant) recordOldest(ctx context.Context, generations []*generation) (more []*generation) {
	var seen []Sighting
	t.mu.Lock()
	generations = slices.DeleteFunc(slices.Clone(generations), func(e *generation) bool { return len(e.recording.unrecorded) == 0 })
	for _, e := range generations {
		seen = append(seen, e.recording.unrecorded[0])
	}
	t.mu.Unlock()
	if len(seen) == 0 {
		return nil
	}
	recorded := t.cfg.Recorder.Record(ctx, t.cred, seen)
	t.mu.Lock()
	defer t.mu.Unlock()
	failed := false
	for n, e := range generations {
		if !recorded[e.id] {
			failed = true
			continue
		}
		e.recording.finishState(seen[n])
		if len(e.recording.unrecorded) > 0 {
			more = append(more, e)
		}
	}
	t.recordLater(failed, time.Now())
	return more
}

// recordLater schedules a retry if hasFailed is true. Otherwise, it resets the delay of later retries. It does nothing if a
// retry is already scheduled.
func (t *tenant) recordLater(hasFailed bool, now time.Time) {
	switch {
	case !t.recordAt.IsZero():
	case !hasFailed:
		t.recordFailures = 0
	default:
		t.recordFailures++
		t.recordAt = now.Add(schedule.Backoff(t.recordFailures, recordRetry, maxRecordRetry))
		t.queue.blocked = false // a retry writes only to the ledger, so it need not wait until the next poll is allowed
		t.queue.wakeBy(t.recordAt)
	}
}
