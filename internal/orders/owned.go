package orders

import (
	"context"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Owned returns the attributions of the generations that belong to an owner, or to any owner if owner is nil. A generation of
// another owner and a generation without an order are both missing.
func (o *Orders) Owned(ctx context.Context, owner *string, generationIDs ...string) (map[string]ledger.Attribution, error) {
	return o.Ledger.Attributions(ctx, owner, generationIDs...)
}

// maxCovered is the maximum number of existing orders, and of unsettled orders, that a watch of everything covers.
const maxCovered = 10_000

// Existing returns the newest generations whose orders a filter selects and that the catalog still has.
func (o *Orders) Existing(ctx context.Context, f ledger.Filter) (generationIDs []string, err error) {
	f.Statuses, f.Existing, f.Deleted, f.Unsettled = nil, true, false, false
	return o.Ledger.Generations(ctx, f, maxCovered)
}

// Unsettled returns the newest generations whose orders a filter selects and that are not settled.
func (o *Orders) Unsettled(ctx context.Context, f ledger.Filter) (generationIDs []string, err error) {
	f.Statuses, f.Existing, f.Deleted, f.Unsettled = nil, false, false, true
	return o.Ledger.Generations(ctx, f, maxCovered)
}

// IsSettled reports whether the money of a generation is settled in the ledger. A generation that the ledger does not know
// counts as settled.
func (o *Orders) IsSettled(ctx context.Context, generationID string) (bool, error) {
	found, err := o.Ledger.Own(ctx, nil, generationID)
	order, known := found[generationID]
	return !known || order.Settled, err
}

// NotFound records that a read did not find a generation. It returns the recorded generation if an order of the owner has it
// and it is not known to be deleted, because one such read proves nothing. A nil owner means any owner.
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

// witnessed records that the read of a call did not find a generation, and reports whether it counts as deleted. It sends
// another read to check whether the catalog responds.
func (o *Orders) witnessed(ctx context.Context, cred catalog.Credential, generationID string) (gone bool) {
	_, err := o.Catalog.Account(ctx, cred)
	gone, failed := o.absent(ctx, cred, generationID, err == nil)
	return gone && failed == nil
}

// absent records that a read did not find a generation, and notifies its watchers when it counts as deleted.
func (o *Orders) absent(ctx context.Context, cred catalog.Credential, generationID string, witnessed bool) (gone bool, err error) {
	seen := ledger.Observation{Observation: lifecycle.Observation{NotFound: true, Witnessed: witnessed}, APIKey: cred.ForwardedSum()}
	effect, err := o.observe(ctx, generationID, seen)
	if effect.Gone {
		o.Hub.Gone(ctx, cred, generationID)
	}
	return effect.Gone, err
}
