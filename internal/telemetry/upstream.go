package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

const (
	failureInterval = time.Minute // between two lines about the same trouble
	mostFailures    = 200         // troubles that are told apart
)

// Failures logs how the catalog fails: the first time of each kind and key at once, and then
// once a minute how often it was, until a minute is quiet. In an outage each poll fails the
// same way, which says nothing new.
type Failures struct {
	logger *slog.Logger
	silent silence

	mu     sync.Mutex
	open   map[failureKey]failure
	closed bool
}

// failureKey tells troubles apart. Those beyond the most are one, without key and kind.
type failureKey struct {
	key  string // its fingerprint
	kind string
}

// failure is a trouble that was logged less than an interval ago.
type failure struct {
	again int // since it was logged
	last  string
}

func newFailures(logger *slog.Logger) *Failures {
	return &Failures{logger: logger, silent: silence{keys: map[string]outage{}}, open: map[failureKey]failure{}}
}

// Polled notes how a poll has ended. ctx is that of the poll, for its trace.
func (f *Failures) Polled(ctx context.Context, tenant catalog.Tenant, err error) {
	if err == nil {
		f.silent.answered(tenant.Fingerprint())
	}
	if err == nil || errors.Is(err, context.Canceled) || catalog.KindOf(err) == catalog.KindNotFound {
		return
	}
	f.note(ctx, tenant, err)
}

// Called notes how a request of a call has ended. What the catalog answers to one caller's
// mistake, and what ends the call as an error of this server, the line of the call tells. ctx is
// that of the call, for its trace.
func (f *Failures) Called(ctx context.Context, cred catalog.Credential, err error) {
	kind := catalog.KindOf(err)
	switch kind {
	case catalog.KindUnavailable, catalog.KindOutcomeUnknown:
		f.silent.failed(cred.Tenant.Fingerprint())
	default:
		if err == nil || kind != 0 { // else the caller has gone
			f.silent.answered(cred.Tenant.Fingerprint())
		}
	}
	switch kind {
	case catalog.KindRateLimited, catalog.KindUnavailable, catalog.KindOutcomeUnknown:
		f.note(ctx, cred.Tenant, err)
	}
}

// Unanswered gives the keys, by fingerprint, whose last calls have all failed for want of an
// answer, the newest within a minute, and how long ago that has begun. They are at most 200.
func (f *Failures) Unanswered() map[string]time.Duration { return f.silent.now() }

func (f *Failures) note(ctx context.Context, tenant catalog.Tenant, err error) {
	key := failureKey{tenant.Fingerprint(), catalog.KindOf(err).String()}
	if f.repeated(&key, err.Error()) {
		return
	}
	f.logger.LogAttrs(ctx, slog.LevelWarn, "the catalog fails",
		slog.String("key", key.key), slog.String("kind", key.kind), slog.String("error", err.Error()))
}

// repeated counts a trouble, and reports whether it was logged a moment ago.
func (f *Failures) repeated(key *failureKey, text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, open := f.open[*key]
	if !open && len(f.open) >= mostFailures {
		*key = failureKey{"others", "others"}
		one, open = f.open[*key]
	}
	if open {
		f.open[*key] = failure{one.again + 1, text}
	} else if !f.closed {
		f.count(*key)
	}
	return open
}

// count counts a trouble for an interval; mu is held.
func (f *Failures) count(key failureKey) {
	f.open[key] = failure{}
	time.AfterFunc(failureInterval, func() { f.sum(key) })
}

// sum logs how often a trouble has come again, at the end of an interval.
func (f *Failures) sum(key failureKey) {
	f.mu.Lock()
	one := f.open[key]
	delete(f.open, key)
	if one.again > 0 && !f.closed {
		f.count(key)
	}
	f.mu.Unlock()
	if one.again > 0 {
		f.logger.Warn("the catalog has failed again", "key", key.key, "kind", key.kind, "times", one.again, "last_error", one.last)
	}
}

// stop logs what is counted, and counts no more.
func (f *Failures) stop() {
	f.mu.Lock()
	f.closed = true
	keys := slices.Collect(maps.Keys(f.open))
	f.mu.Unlock()
	for _, key := range keys {
		f.sum(key)
	}
}
