package orders

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	mostText       = 64 << 10    // maximum length of a result's text in an event, in bytes
	recordBatch    = 100         // maximum number of states in each transaction
	settleFailures = 3           // a batch, or a run of the settle job, stops after this number of consecutive failures to record a state
	recordTimeout  = time.Second // timeout for a batch; short, because its transactions lock budgets
)

// Recorder records observed states of generations in the ledger. Recording the same state again has no effect.
type Recorder struct {
	Ledger *ledger.Ledger
	Logger *slog.Logger // logs states that contradict the ledger, and charges that exceed the quote
}

// observation converts a state to an observation for the ledger. If isInferred is true, the state is a deletion that the
// catalog did not report. Easel has inferred it from repeated reads that did not find the generation.
func (r *Recorder) observation(cred catalog.Credential, v catalog.Version, isInferred bool) ledger.Observation {
	seen := ledger.Observation{Observation: lifecycle.Observation{Status: watch.StatusOf(v.State), CostCents: v.CostCents, Deleted: v.State == catalog.StateDeleted, NotFound: isInferred}}
	seen.Whole = !cred.IsShared()        // every record that was read with a forwarded API key counts as complete, because the settle job lacks the key to read more details
	if v.State != catalog.StateDeleted { // a deleted generation has no details to record
		seen.Record = encodeRecord(v)
	}
	if v.Text != nil && len(*v.Text) <= mostText {
		seen.Text = v.Text
	}
	seen.APIKey = cred.ForwardedSum()
	return seen
}

// Record implements [watch.Recorder]. If the ledger rejects a state, or another transaction has locked its order, the other
// states are still recorded without delay.
func (r *Recorder) Record(ctx context.Context, cred catalog.Credential, seen []watch.Sighting) (recorded map[string]bool) {
	states := map[string]ledger.Observation{}
	for _, s := range seen {
		state := r.observation(cred, s.Version, s.NotFound)
		state.AtOnce = len(seen) > 1
		states[s.ID] = state
	}
	recorded, _ = r.recordAll(ctx, states) // the hub retries the states that were not recorded
	return recorded
}

// recordAll records states in batches, and returns the IDs of the generations whose states were recorded. It stops at
// the first batch that fails, and returns the error.
func (r *Recorder) recordAll(ctx context.Context, states map[string]ledger.Observation) (recorded map[string]bool, err error) {
	recorded = map[string]bool{}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(states)), recordBatch) {
		batch := map[string]ledger.Observation{}
		for _, id := range ids {
			batch[id] = states[id]
		}
		if err := r.recordBatch(ctx, batch, recorded); err != nil {
			return recorded, err
		}
	}
	return recorded, nil
}

// recordBatch records states in one transaction or, if that fails, one by one. It sets recorded[id] to true for each
// generation whose state was recorded. After settleFailures consecutive errors that are not specific to one state, it stops and
// returns the last error.
func (r *Recorder) recordBatch(ctx context.Context, states map[string]ledger.Observation, recorded map[string]bool) error {
	bounded, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if len(states) > 1 {
		if _, err := r.observeAll(bounded, states); err == nil {
			for id := range states {
				recorded[id] = true
			}
			return nil
		}
	}
	failures := 0 // number of consecutive errors that are not specific to one state
	for _, id := range slices.Sorted(maps.Keys(states)) {
		_, err := r.observeOne(ctx, id, states[id])
		recorded[id] = err == nil
		away, ok := errors.AsType[*ledger.Unavailable](err)
		switch {
		case err == nil:
			failures = 0
		case ok && away.Locked || ledger.IsFault(err): // the error is specific to this state, so other states can still be recorded
		default:
			failures++
		}
		if failures == settleFailures {
			return err
		}
	}
	return nil
}

// observeOne records one observation of the generation with the given ID.
func (r *Recorder) observeOne(ctx context.Context, id string, seen ledger.Observation) (ledger.Effect, error) {
	effects, err := r.observeAll(ctx, map[string]ledger.Observation{id: seen})
	return effects[id], err
}

// observeAll records states in one transaction. It logs and counts states that contradict the ledger, and charges that
// exceed the quote.
func (r *Recorder) observeAll(ctx context.Context, seen map[string]ledger.Observation) (effects map[string]ledger.Effect, err error) {
	if effects, err = r.Ledger.ObserveAll(ctx, seen); err != nil {
		if ledger.IsFault(err) {
			r.Ledger.Counts.Faults.Add(1)
			r.Logger.ErrorContext(ctx, "state from the catalog contradicts the ledger", "error", err)
		}
		return nil, err
	}
	for id, effect := range effects {
		if effect.ExceededCents > 0 {
			r.reportExcess(ctx, effect.ExceededCents, *seen[id].CostCents, "generation", id)
		}
	}
	return effects, nil
}

// reportExcess logs and counts a charge that exceeds the quote.
func (r *Recorder) reportExcess(ctx context.Context, quoted, cost int64, about ...any) {
	r.Logger.WarnContext(ctx, "charge exceeds quote", append(about, "quoted_cents", quoted, "cost_cents", cost)...)
	r.Ledger.Counts.Dearer.Add(1)
}
