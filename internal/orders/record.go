package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// encodeRecord is what the ledger keeps of a generation: all but the inputs and the text, which the catalog has.
func encodeRecord(v catalog.Version) string {
	v.Inputs, v.Text = nil, nil
	text, err := json.Marshal(v)
	if err != nil {
		return "" // what was read from JSON can be written as JSON
	}
	return string(text)
}

// decodeRecord reads what encodeRecord has written.
func decodeRecord(text string) (v catalog.Version, ok bool) {
	decoder := json.NewDecoder(bytes.NewBufferString(text))
	decoder.UseNumber()
	return v, text != "" && decoder.Decode(&v) == nil
}

// recordedGeneration is what the ledger has of the generation of a placed order. It was never seen later than now, or
// nothing that is seen after it would count: whoever has recorded it may have another clock.
func recordedGeneration(order ledger.Order) catalog.Generation {
	placed := placedTime(order)
	g := catalog.Generation{State: catalog.StateQueued, CreateTime: placed, ObserveTime: placed}
	if v, ok := decodeRecord(order.Record); ok {
		g = v.Generation
	}
	if now := time.Now(); g.ObserveTime.After(now) {
		g.ObserveTime = now
	}
	g.ID, g.ModelID = order.Generation, order.ModelID
	if g.CostCents == nil {
		g.CostCents = order.CostCents
	}
	if order.Deleted {
		g.State, g.File, g.Text = catalog.StateDeleted, nil, nil
	}
	return g
}

// statuses are the states of the catalog as the ledger has them.
var statuses = map[catalog.State]ledger.Status{
	catalog.StateQueued: ledger.Queued, catalog.StateRunning: ledger.Running, catalog.StateSucceeded: ledger.Succeeded,
	catalog.StateFailed: ledger.Failed, catalog.StateRefunded: ledger.Refunded,
}

// observation is a state as the ledger records it.
func observation(cred catalog.Credential, v catalog.Version, notFound bool) ledger.Observation {
	seen := ledger.Observation{Status: statuses[v.State], CostCents: v.CostCents, Deleted: v.State == catalog.StateDeleted && !notFound, NotFound: notFound}
	if v.State != catalog.StateDeleted { // whose record says nothing
		seen.Record = encodeRecord(v)
	}
	if !cred.Held {
		seen.APIKey = cred.APIKeySum()
	}
	return seen
}

const (
	maxUnrecorded  = 100_000          // states that wait for the ledger
	recordRetry    = time.Second      // before a state is recorded again that the ledger has refused; doubles
	recordRetryMax = 30 * time.Second // at most
)

// recorder keeps the states that wait for the ledger: of each generation the newest.
type recorder struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting map[string]ledger.Observation
	order   []string // of the generations in it
}

func newRecorder() *recorder {
	return &recorder{wake: make(chan struct{}, 1), waiting: map[string]ledger.Observation{}}
}

// put lets a state wait. Where too many do, what is new is left for the settler to see.
func (r *recorder) put(id string, seen ledger.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[id]; !ok {
		if len(r.waiting) >= maxUnrecorded {
			return
		}
		r.order = append(r.order, id)
	}
	r.waiting[id] = seen
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take gives the state that has waited for longest.
func (r *recorder) take() (id string, seen ledger.Observation, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) == 0 {
		return "", seen, false
	}
	id, r.order = r.order[0], r.order[1:]
	seen = r.waiting[id]
	delete(r.waiting, id)
	return id, seen, true
}

// giveBack lets a state wait again that could not be recorded, unless there is a newer one.
func (r *recorder) giveBack(id string, seen ledger.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[id]; !ok {
		r.waiting[id], r.order = seen, append(r.order, id)
	}
}

// Sighted notes a state that this process has seen, for [Orders.Record]. It does not wait. notFound means that a 404
// alone says that the generation is deleted.
func (o *Orders) Sighted(cred catalog.Credential, v catalog.Version, notFound bool) {
	if last, ok := o.recorded.get(v.ID); ok && last.etag == v.Etag && (last.until.IsZero() || time.Now().Before(last.until)) {
		return
	}
	o.recorder.put(v.ID, observation(cred, v, notFound))
	if v.State != catalog.StateDeleted {
		o.recorded.put(v.ID, recordedState{etag: v.Etag})
	}
}

// recordedState is the newest state of a generation that the ledger has or will have. A state may be seen before the
// ledger has the id of its order: it is noted again after until.
type recordedState struct {
	etag  string
	until time.Time // zero: the ledger has the order
}

// unorderedPause is how long a state is not noted again of which the ledger has no order.
const unorderedPause = 10 * time.Second

// unordered notes that the ledger had no order of a state.
func (o *Orders) unordered(generationID string) {
	if last, ok := o.recorded.get(generationID); ok {
		o.recorded.put(generationID, recordedState{last.etag, time.Now().Add(unorderedPause)})
	}
}

// Record writes the noted states into the ledger, one after the other, until ctx ends, and then what is left as long as
// the ledger takes it. While the ledger is away they wait.
func (o *Orders) Record(ctx context.Context) {
	defer o.recordRest(context.WithoutCancel(ctx))
	pause := recordRetry
	for {
		id, seen, ok := o.recorder.take()
		if !ok {
			select {
			case <-o.recorder.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if o.observe(ctx, id, seen) == nil {
			pause = recordRetry
			continue
		}
		o.recorder.giveBack(id, seen)
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, recordRetryMax)
	}
}

// recordRest records what is left at the end.
func (o *Orders) recordRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		id, seen, ok := o.recorder.take()
		if !ok || o.observe(ctx, id, seen) != nil {
			return
		}
	}
}

func (o *Orders) observe(ctx context.Context, id string, seen ledger.Observation) error {
	ordered := false
	err := ask(ctx, func(ctx context.Context) (err error) {
		ordered, err = o.Ledger.Observe(ctx, id, seen)
		return err
	})
	if err == nil && !ordered {
		o.unordered(id)
	}
	return err
}
