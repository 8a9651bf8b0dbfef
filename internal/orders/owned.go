package orders

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// attributedFor is how long that counts, while the ledger answers, and unattributedFor how long that there is no order.
const (
	attributedFor   = time.Minute
	unattributedFor = 10 * time.Second
)

// Owned says whose generations are, of those that belong to an owner, or where that is nil to anybody. Generations
// of one's own alone are remembered: a foreign one and one that nobody has take the same way. What was remembered for
// long is asked again, and counts while the ledger does not answer.
func (o *Orders) Owned(ctx context.Context, owner *string, generationIDs ...string) (map[string]Attribution, error) {
	own, asked, missing := make(map[string]Attribution, len(generationIDs)), make([]string, 0, len(generationIDs)), false
	for _, id := range generationIDs {
		a, ok := o.owned.get(keyOfOwned(owner, id))
		if ok = ok && !a.none; ok {
			own[id] = a.Attribution
		}
		if !ok || time.Since(a.at) > attributedFor {
			asked, missing = append(asked, id), missing || !ok
		}
	}
	if len(asked) == 0 {
		return own, nil
	}
	found, err := o.OwnedNow(ctx, owner, asked...)
	if err != nil && !missing {
		return own, nil
	}
	for _, id := range asked {
		if a, ok := found[id]; ok {
			own[id] = a
		} else if err == nil {
			delete(own, id)
		}
	}
	return own, err
}

// Attributions is [Orders.Owned] for those who see every generation of an API key, to whom it matters little that there
// is no order: that is remembered for a while.
func (o *Orders) Attributions(ctx context.Context, owner *string, generationIDs ...string) (map[string]Attribution, error) {
	asked := o.maybeOrdered(owner, generationIDs)
	if len(asked) == 0 {
		return nil, nil
	}
	own, err := o.Owned(ctx, owner, asked...)
	for _, id := range asked {
		if _, ok := own[id]; !ok && err == nil {
			o.owned.put(keyOfOwned(owner, id), attributed{at: time.Now(), none: true})
		}
	}
	return own, err
}

// maybeOrdered are those of some generations that are not remembered to have no order.
func (o *Orders) maybeOrdered(owner *string, generationIDs []string) (asked []string) {
	for _, id := range generationIDs {
		if a, ok := o.owned.get(keyOfOwned(owner, id)); !ok || !a.none || time.Since(a.at) >= unattributedFor {
			asked = append(asked, id)
		}
	}
	return asked
}

// OwnedNow is [Orders.Owned] by the ledger of now.
func (o *Orders) OwnedNow(ctx context.Context, owner *string, generationIDs ...string) (map[string]Attribution, error) {
	found, err := o.Ledger.Own(ctx, owner, generationIDs...)
	own := make(map[string]Attribution, len(found))
	for _, id := range generationIDs {
		order, ok := found[id]
		if !ok && err == nil {
			o.owned.forget(keyOfOwned(owner, id))
		}
		if ok {
			own[id] = Attribution{order.Owner, order.Caller, order.ModelID, order.Labels}
			o.owned.put(keyOfOwned(owner, id), attributed{Attribution: own[id], at: time.Now()})
		}
	}
	return own, err
}

// Standing are those of some generations that have an order, of an owner or of anybody, and are not recorded to be gone.
// Where the ledger does not answer, none is known to be.
func (o *Orders) Standing(ctx context.Context, owner *string, generationIDs ...string) map[string]bool {
	asked := o.maybeOrdered(owner, generationIDs)
	if len(asked) == 0 {
		return nil
	}
	standing := make(map[string]bool, len(asked))
	found, err := o.Ledger.Own(ctx, owner, asked...)
	for _, id := range asked {
		order, known := found[id]
		standing[id] = err != nil || known && !order.IsGone()
	}
	return standing
}

// Unsettled gives the newest generations that a filter chooses, of any state, whose money may still move.
func (o *Orders) Unsettled(ctx context.Context, f ledger.Filter) (generationIDs []string, err error) {
	f.Statuses, f.Existing, f.Deleted, f.Unsettled = nil, false, false, true
	all, err := o.listNewest(ctx, f)
	for _, order := range all {
		generationIDs = append(generationIDs, order.ID)
	}
	return generationIDs, err
}

// IsSettled reports whether no money of a generation can move any more, as far as the ledger knows. Where it does
// not know the generation, nothing of it is to be settled.
func (o *Orders) IsSettled(ctx context.Context, generationID string) (bool, error) {
	found, err := o.Ledger.Own(ctx, nil, generationID)
	order, known := found[generationID]
	return !known || order.Settled, err
}

// Deleted records a deletion of ours, after the states of the generation that wait: an end that is recorded after the
// deletion is told after it, and its charge counts no more. Where the ledger does not answer, the deletion waits too.
func (o *Orders) Deleted(ctx context.Context, cred catalog.Credential, generationID string) {
	gone := catalog.Version{Generation: catalog.Generation{ID: generationID, State: catalog.StateDeleted}}
	seen := o.observation(cred, gone, false)
	if err := o.recordDeletion(ctx, generationID, seen); err != nil {
		o.put(sight{seen.APIKey, generationID}, seen)
		o.Logger.WarnContext(ctx, "the ledger has not recorded a deletion yet", "generation", generationID, "error", err)
	}
}

func (o *Orders) recordDeletion(ctx context.Context, generationID string, seen ledger.Observation) error {
	key := sight{seen.APIKey, generationID}
	for _, earlier := range o.of(key) {
		if isGone(*earlier) {
			continue // of which nothing more is known
		}
		if err := o.recordWaiting(ctx, waiting{key, earlier}.alone(), false); err != nil {
			return err
		}
	}
	_, err := o.observe(ctx, generationID, seen)
	return err
}

// NotFound records that a read under a credential has not found a generation, and gives what is recorded of it where an
// order of the owner, or where that is nil of anybody, is not known to be gone: one such read says nothing.
func (o *Orders) NotFound(ctx context.Context, cred catalog.Credential, owner *string, generationID string, err error) (recorded catalog.Version, ok bool) {
	found, failed := o.Ledger.Own(ctx, owner, generationID)
	order, known := found[generationID]
	if failed != nil || !known || order.IsGone() {
		return recorded, false
	}
	if catalog.IsAbsent(err) && o.witnessed(ctx, cred, generationID) {
		return recorded, false
	}
	return recordedVersion(order), true
}

// witnessed records that a read of a call has not found a generation, and reports whether it counts as gone: another read
// tells whether the catalog answers.
func (o *Orders) witnessed(ctx context.Context, cred catalog.Credential, generationID string) (gone bool) {
	_, err := o.Catalog.Account(ctx, cred)
	gone, failed := o.absent(ctx, cred, generationID, err == nil)
	return gone && failed == nil
}

// absent records that a read has not found a generation, and lets its watchers know when it counts as gone.
func (o *Orders) absent(ctx context.Context, cred catalog.Credential, generationID string, witnessed bool) (gone bool, err error) {
	seen := ledger.Observation{Observation: lifecycle.Observation{NotFound: true, Witnessed: witnessed}, APIKey: forwardedSum(cred)}
	effect, err := o.observe(ctx, generationID, seen)
	if effect.Gone {
		o.recorded.forget(sight{seen.APIKey, generationID})
		o.Hub.Gone(ctx, cred, generationID)
	}
	return effect.Gone, err
}
