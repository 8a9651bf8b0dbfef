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
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	failureInterval = time.Minute // between two lines about the same failure
	maxFailures     = 200         // failures that are told apart
)

// Failures logs failures of the catalog: the first of each kind and API key at once, and then
// once a minute their number, until a minute has none. In an outage each poll fails the same
// way, which says nothing new.
type Failures struct {
	logger     *slog.Logger
	unanswered unansweredKeys

	mu     sync.Mutex
	open   map[failureKey]failure
	closed bool
}

// failureKey tells failures apart. Those beyond maxFailures share one key.
type failureKey struct {
	key  string // fingerprint of the API key
	kind string
}

// failure is a failure that was logged less than an interval ago.
type failure struct {
	repeats int // since it was logged
	last    string
}

func newFailures(logger *slog.Logger) *Failures {
	return &Failures{logger: logger, unanswered: unansweredKeys{keys: map[string]outage{}}, open: map[failureKey]failure{}}
}

// Polled notes the end of a poll, which is a line of the log for debugging. ctx is that of the poll, for its trace.
func (f *Failures) Polled(ctx context.Context, p watch.Poll, out watch.Outcome) {
	tenant, err := p.Tenant, out.Err
	if f.logger.Enabled(ctx, slog.LevelDebug) {
		f.logger.DebugContext(ctx, "poll", "kind", p.Kind(), "generation", p.ID, "api_key", tenant.Fingerprint(), "outcome", pollOutcome(err),
			"watches", p.Watches, "generations", p.Generations, "changes", len(out.Changes))
	}
	if err == nil {
		f.unanswered.answered(tenant.Fingerprint())
	}
	if err == nil || errors.Is(err, context.Canceled) || catalog.KindOf(err) == catalog.KindNotFound {
		return
	}
	f.log(ctx, tenant, err)
}

// Called notes the end of a call's request. It logs neither answers to a caller's mistake nor
// errors of this server, as the log line of the call has them. ctx is that of the call, for its
// trace.
func (f *Failures) Called(ctx context.Context, cred catalog.Credential, err error) {
	kind := catalog.KindOf(err)
	switch kind {
	case catalog.KindUnavailable, catalog.KindOutcomeUnknown:
		f.unanswered.failed(cred.Tenant.Fingerprint())
	default:
		if err == nil || kind != 0 { // kind 0: the caller has gone
			f.unanswered.answered(cred.Tenant.Fingerprint())
		}
	}
	switch kind {
	case catalog.KindRateLimited, catalog.KindUnavailable, catalog.KindOutcomeUnknown:
		f.log(ctx, cred.Tenant, err)
	}
}

// Unanswered gives the API keys, by fingerprint, whose last calls got no answer, the newest
// within a minute, and for how long. There are at most 200.
func (f *Failures) Unanswered() map[string]time.Duration { return f.unanswered.now() }

func (f *Failures) log(ctx context.Context, tenant catalog.Tenant, err error) {
	key := failureKey{tenant.Fingerprint(), catalog.KindOf(err).String()}
	if f.repeated(&key, err.Error()) {
		return
	}
	f.logger.LogAttrs(ctx, slog.LevelWarn, "the catalog fails",
		slog.String("api_key", key.key), slog.String("kind", key.kind), slog.String("error", err.Error()))
}

// repeated counts a failure, and reports whether it was logged less than an interval ago.
func (f *Failures) repeated(key *failureKey, text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, open := f.open[*key]
	if !open && len(f.open) >= maxFailures {
		*key = failureKey{"others", "others"}
		one, open = f.open[*key]
	}
	if open {
		f.open[*key] = failure{one.repeats + 1, text}
	} else if !f.closed {
		f.count(*key)
	}
	return open
}

// count counts a failure for an interval; mu is held.
func (f *Failures) count(key failureKey) {
	f.open[key] = failure{}
	time.AfterFunc(failureInterval, func() { f.sum(key) })
}

// sum logs how often a failure was repeated, at the end of an interval.
func (f *Failures) sum(key failureKey) {
	f.mu.Lock()
	one := f.open[key]
	delete(f.open, key)
	if one.repeats > 0 && !f.closed {
		f.count(key)
	}
	f.mu.Unlock()
	if one.repeats > 0 {
		f.logger.Warn("the catalog has failed again", "api_key", key.key, "kind", key.kind, "times", one.repeats, "last_error", one.last)
	}
}

// stop logs the counts, and counts no more.
func (f *Failures) stop() {
	f.mu.Lock()
	f.closed = true
	keys := slices.Collect(maps.Keys(f.open))
	f.mu.Unlock()
	for _, key := range keys {
		f.sum(key)
	}
}
