package orders

import (
	"context"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// maxOwned is how many generations are known to belong to somebody.
const maxOwned = 100_000

// ownedKey is a generation and who asks for it.
type ownedKey struct {
	owner        string
	everybody    bool // an operator asks
	generationID string
}

func keyOfOwned(owner *string, id string) ownedKey {
	if owner == nil {
		return ownedKey{everybody: true, generationID: id}
	}
	return ownedKey{owner: *owner, generationID: id}
}

// Attribution says whose a generation is, and what was ordered. It never changes.
type Attribution struct {
	Owner, Caller, Model string
	Labels               map[string]string
}

// Owned says whose generations are, of those that belong to an owner, or where that is nil to anybody. Generations
// of one's own alone are remembered: a foreign one and one that nobody has take the same way.
func (o *Orders) Owned(ctx context.Context, owner *string, generationIDs ...string) (map[string]Attribution, error) {
	own, asked := make(map[string]Attribution, len(generationIDs)), make([]string, 0, len(generationIDs))
	for _, id := range generationIDs {
		if a, ok := o.owned.get(keyOfOwned(owner, id)); ok {
			own[id] = a
		} else {
			asked = append(asked, id)
		}
	}
	if len(asked) == 0 {
		return own, nil
	}
	found, err := o.find(ctx, owner, asked...)
	for id, order := range found {
		a := Attribution{order.Owner, order.Caller, order.ModelID, order.Labels}
		o.owned.put(keyOfOwned(owner, id), a)
		own[id] = a
	}
	return own, err
}

// find gives the orders of generations, of an owner or of anybody.
func (o *Orders) find(ctx context.Context, owner *string, generationIDs ...string) (found map[string]ledger.Order, err error) {
	err = ask(ctx, func(ctx context.Context) error {
		found, err = o.Ledger.Own(ctx, owner, generationIDs...)
		return err
	})
	return found, err
}

// maxUnsettled is how many generations a watch of everything covers that the catalog need not list.
const maxUnsettled = 10_000

// Unsettled gives the newest generations that a filter chooses, of any state, whose money may still move.
func (o *Orders) Unsettled(ctx context.Context, f ledger.Filter) (generationIDs []string, err error) {
	f.Statuses, f.Existing, f.Deleted, f.Unsettled = nil, false, false, true
	err = ask(ctx, func(ctx context.Context) error {
		all, err := o.Ledger.List(ctx, f, ledger.Position{}, maxUnsettled)
		for _, order := range all {
			generationIDs = append(generationIDs, order.Generation)
		}
		return err
	})
	return generationIDs, err
}

// IsSettled reports whether no money of a generation can move any more, as far as the ledger knows. Where it does
// not know the generation, nothing of it is to be settled.
func (o *Orders) IsSettled(ctx context.Context, generationID string) (bool, error) {
	found, err := o.find(ctx, nil, generationID)
	order, known := found[generationID]
	return !known || order.Settled, err
}

// Deleted records a deletion of ours, after the states of the generation that wait: an end that is recorded after the
// deletion is told after it, and its charge counts no more. notFound means that the catalog has answered 404: soon
// after the order that says nothing. Where the ledger does not answer, the deletion waits too.
func (o *Orders) Deleted(ctx context.Context, cred catalog.Credential, generationID string, notFound bool) {
	gone := catalog.Version{Generation: catalog.Generation{ID: generationID, State: catalog.StateDeleted}}
	seen := o.observation(cred, gone, notFound)
	if err := o.recordDeletion(ctx, generationID, seen); err != nil {
		o.recorder.put(sight{seen.APIKey, generationID}, seen)
		o.Logger.WarnContext(ctx, "the ledger has not recorded a deletion yet", "generation", generationID, "error", err)
	}
}

func (o *Orders) recordDeletion(ctx context.Context, generationID string, seen ledger.Observation) error {
	key := sight{seen.APIKey, generationID}
	for _, earlier := range o.recorder.of(key) {
		if isGone(*earlier) {
			continue // of which nothing more is known
		}
		if err := o.recordWaiting(ctx, key, earlier); err != nil {
			return err
		}
	}
	return o.observe(ctx, generationID, seen)
}
