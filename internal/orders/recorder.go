package orders

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/watch"
)

// mostText is the maximum length of a text in an event, in bytes.
const mostText = 64 << 10

// observation returns a state for the ledger. notFound means that only failed reads show the deletion, and that they did so
// for long enough.
func (r *Recorder) observation(cred catalog.Credential, v catalog.Version, notFound bool) ledger.Observation {
	seen := ledger.Observation{Observation: lifecycle.Observation{Status: watch.StatusOf(v.State), CostCents: v.CostCents, Deleted: v.State == catalog.StateDeleted, NotFound: notFound}}
	seen.Whole = !cred.IsShared()        // no later read completes an order under a forwarded API key
	if v.State != catalog.StateDeleted { // the record of a deletion has no details
		seen.Record = encodeRecord(v)
	}
	if v.Text != nil && len(*v.Text) <= mostText {
		seen.Text = v.Text
	}
	seen.APIKey = cred.ForwardedSum()
	return seen
}

const (
	maxUnrecorded  = 100_000          // maximum number of queued states
	maxTexts       = 64 << 20         // maximum bytes of texts in queued states
	recordRetry    = time.Second      // delay before a rejected state is recorded again; doubles
	recordRetryMax = 30 * time.Second // maximum delay
	recordBatch    = 64               // maximum number of states in one transaction
	recordTime     = time.Second      // timeout of a transaction of many states, because it locks budgets
)

// sight is a generation as seen by an API key. Reads under a forwarded API key count only for its own orders.
type sight struct{ apiKey, generationID string }

// Recorder records observed states of generations in the ledger. It queues the states of each sight that carry information, in
// order.
type Recorder struct {
	Ledger *ledger.Ledger
	Logger *slog.Logger // logs contradictions in the ledger

	recorded *recent[sight, recordedState]
	wake     chan struct{}

	mu      sync.Mutex
	waiting map[sight][]*ledger.Observation
	order   []sight             // queue of the sights with states
	delayed map[sight]postponed // sights that another transaction has locked, or that the ledger rejects
	states  int
	texts   int // bytes
}

// NewRecorder creates a Recorder. It sends no queries.
func NewRecorder(book *ledger.Ledger, logger *slog.Logger) *Recorder {
	return &Recorder{
		Ledger: book, Logger: logger, recorded: newRecent[sight, recordedState](maxRecent),
		wake: make(chan struct{}, 1), waiting: map[sight][]*ledger.Observation{}, delayed: map[sight]postponed{},
	}
}

// put enqueues a state. If the queue is full, the state replaces the latest state of its generation. A state of another
// generation is dropped, and left for the next poll and the settler.
func (r *Recorder) put(key sight, seen ledger.Observation) (taken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting[key]
	at := slices.IndexFunc(all, func(old *ledger.Observation) bool { return supersedes(seen, *old) })
	full := r.states >= maxUnrecorded
	if last := len(all) - 1; at < 0 && full && last >= 0 && !isGone(seen) && !isGone(*all[last]) {
		at = last
	}
	if at < 0 && full || r.texts+textBytes(seen) > maxTexts {
		return false
	}
	if at >= 0 {
		if seen.CostCents == nil {
			seen.CostCents = all[at].CostCents
		}
		r.texts -= textBytes(*all[at])
		all[at] = &seen
	} else {
		if len(all) == 0 {
			r.order = append(r.order, key)
		}
		r.waiting[key] = append(all, &seen)
		r.states++
	}
	r.texts += textBytes(seen)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

// supersedes reports whether an older state need not be recorded if a newer state is. A terminal state must be recorded,
// because it has its own event and charge. A generation has few states, so the queue stays short.
func supersedes(newer, older ledger.Observation) bool {
	if isGone(newer) || isGone(older) {
		return newer.Deleted == older.Deleted && newer.NotFound == older.NotFound
	}
	return newer.Status == older.Status || older.Status <= min(newer.Status, lifecycle.Running)
}

func isGone(seen ledger.Observation) bool { return seen.Deleted || seen.NotFound }

// postponed is the time of the next try of a state, with the last delay.
type postponed struct {
	at    time.Time
	pause time.Duration
}

// ready returns the oldest states of at most [recordBatch] generations that may be recorded now, the longest waiting first. A
// later state of a generation has to wait for an earlier one. If no state may be recorded now, ready returns the time until
// the next state.
func (r *Recorder) ready(now time.Time) (all map[string]waiting, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, after = map[string]waiting{}, recordRetryMax
	for _, key := range r.order {
		if late := r.delayed[key].at.Sub(now); late > 0 {
			after = min(after, late)
			continue
		}
		if _, other := all[key.generationID]; !other {
			all[key.generationID] = waiting{key, r.waiting[key][0]}
		}
		if len(all) == recordBatch {
			break
		}
	}
	return all, after
}

// waiting is a queued state.
type waiting struct {
	sight
	seen *ledger.Observation
}

func (w waiting) alone() map[string]waiting { return map[string]waiting{w.generationID: w} }

// of returns the queued states of a sight.
func (r *Recorder) of(key sight) []*ledger.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waiting[key])
}

// done removes a recorded state, unless another state has replaced it.
func (r *Recorder) done(key sight, seen *ledger.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.waiting[key], seen)
	if at < 0 {
		return
	}
	r.waiting[key] = slices.Delete(r.waiting[key], at, at+1)
	r.states--
	r.texts -= textBytes(*seen)
	if len(r.waiting[key]) > 0 {
		return
	}
	delete(r.waiting, key)
	delete(r.delayed, key)
	if at := slices.Index(r.order, key); at == 0 { // almost always
		r.order = r.order[1:]
	} else {
		r.order = slices.Delete(r.order, at, at+1)
	}
}

func textBytes(seen ledger.Observation) int {
	if seen.Text == nil {
		return 0
	}
	return len(*seen.Text)
}

// postpone moves a state that could not be recorded to the end of the queue, and delays it if only this state is affected.
func (r *Recorder) postpone(key sight, onlyThis bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if onlyThis {
		pause := min(max(recordRetry, 2*r.delayed[key].pause), recordRetryMax)
		r.delayed[key] = postponed{time.Now().Add(pause), pause}
	}
	if at := slices.Index(r.order, key); at >= 0 {
		r.order = append(slices.Delete(r.order, at, at+1), key)
	}
}

// Sighted enqueues a state that this process has seen, for [Recorder.Record]. It does not block.
func (r *Recorder) Sighted(s watch.Sighting) {
	v, key := s.Version, sight{s.Credential.ForwardedSum(), s.ID}
	if last, ok := r.recorded.get(key); ok && last.etag == v.Etag && (last.until.IsZero() || time.Now().Before(last.until)) {
		return
	}
	if v.State == catalog.StateDeleted {
		r.recorded.forget(key) // the earlier state may be seen again
	} else { // before the ledger is queried, which may have no such order
		noted := recordedState{etag: v.Etag}
		if v.State.Terminal() {
			noted.until = time.Now().Add(endPause)
		}
		r.recorded.put(key, noted)
	}
	if !r.put(key, r.observation(s.Credential, v, s.NotFound)) {
		r.recorded.forget(key)
	}
}

// recordedState is the latest state of a generation that the ledger has or will have. A state may be seen before the ledger
// has the generation of its order, so it is recorded again after until.
type recordedState struct {
	etag  string
	until time.Time // zero if the ledger has the order and a repeat has no effect
	again bool      // a terminal state that was enqueued a second time
}

// unorderedPause is the time after which a state without an order in the ledger is recorded again.
const unorderedPause = 10 * time.Second

// endPause is the time after which a terminal state is recorded again. The ledger settles orders under forwarded
// API keys only at an observation after the refund window. Also, another replica may have recorded a lasting absence since.
const endPause = 10 * time.Minute

// endRetry is the time after which a terminal state without an order in the ledger is recorded a second time.
const endRetry = 2 * time.Second

// unordered handles a state without an order in the ledger. A terminal state may have been seen before the ledger had the
// generation of its order, and no later read may follow. So it is enqueued once more.
func (r *Recorder) unordered(key sight, seen ledger.Observation) {
	last, ok := r.recorded.get(key)
	if !ok {
		return
	}
	again := !last.again && seen.Status > lifecycle.Running && !isGone(seen)
	r.recorded.put(key, recordedState{last.etag, time.Now().Add(unorderedPause), again || last.again})
	if again && r.put(key, seen) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.delayed[key] = postponed{at: time.Now().Add(endRetry)}
	}
}

// Record writes the queued states into the ledger until ctx is done, many in one transaction. If that fails, it records them
// one by one. At the end, it records the remaining states as long as the ledger accepts them.
func (r *Recorder) Record(ctx context.Context) {
	defer r.recordRest(context.WithoutCancel(ctx))
	for pause := recordRetry; ctx.Err() == nil; {
		all, after := r.ready(time.Now())
		if len(all) == 0 {
			r.await(ctx, after)
			continue
		}
		if r.recordAll(ctx, all) {
			pause = recordRetry
			continue
		}
		sleep(ctx, pause)
		pause = min(2*pause, recordRetryMax)
	}
}

// await waits for a state, at most for d.
func (r *Recorder) await(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// recordRest records the remaining states at shutdown.
func (r *Recorder) recordRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		if all, _ := r.ready(time.Now()); len(all) == 0 || !r.recordAll(ctx, all) {
			return
		}
	}
}

// recordWaiting records all queued states, or none. With atOnce, it fails instead of waiting for locked orders.
func (r *Recorder) recordWaiting(ctx context.Context, all map[string]waiting, atOnce bool) error {
	seen := make(map[string]ledger.Observation, len(all))
	for id, one := range all {
		now := *one.seen
		now.AtOnce = atOnce
		seen[id] = now
	}
	_, err := r.observeAll(ctx, seen)
	for _, one := range all {
		if err == nil {
			r.done(one.sight, one.seen)
		}
	}
	return err
}

// recordAll records states in one transaction, or one by one if that fails. It reports whether the ledger is available.
func (r *Recorder) recordAll(ctx context.Context, all map[string]waiting) (available bool) {
	bounded, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	if len(all) > 1 && r.recordWaiting(bounded, all, true) == nil {
		return true
	}
	for _, one := range all {
		err := r.recordWaiting(ctx, one.alone(), true)
		if err == nil {
			continue
		}
		away, ok := errors.AsType[*ledger.Unavailable](err)
		onlyThis := ok && away.Locked || ledger.IsFault(err)
		if r.postpone(one.sight, onlyThis); !onlyThis {
			return false
		}
	}
	return true
}

// observe records a state.
func (r *Recorder) observe(ctx context.Context, id string, seen ledger.Observation) (ledger.Effect, error) {
	effects, err := r.observeAll(ctx, map[string]ledger.Observation{id: seen})
	return effects[id], err
}

// observeAll records states, and handles their effects.
func (r *Recorder) observeAll(ctx context.Context, seen map[string]ledger.Observation) (effects map[string]ledger.Effect, err error) {
	if effects, err = r.Ledger.ObserveAll(ctx, seen); err != nil {
		if ledger.IsFault(err) {
			r.Ledger.Counts.Faults.Add(1)
			r.Logger.ErrorContext(ctx, "fault of the ledger: state not recorded", "error", err)
		}
		return nil, err
	}
	for id, one := range seen {
		effect := effects[id]
		if !effect.Ordered {
			r.unordered(sight{one.APIKey, id}, one)
		}
		if effect.ExceededCents > 0 {
			r.dearer(ctx, effect.ExceededCents, *one.CostCents, "generation", id)
		}
	}
	return effects, nil
}

// dearer logs and counts a charge above the quote.
func (r *Recorder) dearer(ctx context.Context, quoted, cost int64, about ...any) {
	r.Logger.WarnContext(ctx, "the catalog has charged more than it quoted", append(about, "quoted_cents", quoted, "cost_cents", cost)...)
	r.Ledger.Counts.Dearer.Add(1)
}

// maxRecent is the maximum number of generations with data in memory.
const maxRecent = 100_000

// recent keeps a bounded number of values in memory. If there are too many, it drops an arbitrary value.
type recent[K comparable, V any] struct {
	most int

	mu  sync.RWMutex
	all map[K]V
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{most: most, all: map[K]V{}}
}

func (r *recent[K, V]) get(key K) (value V, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	value, ok = r.all[key]
	return value, ok
}

func (r *recent[K, V]) put(key K, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.all {
		if len(r.all) < r.most {
			break
		}
		delete(r.all, other)
	}
	r.all[key] = value
}

func (r *recent[K, V]) forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
}
