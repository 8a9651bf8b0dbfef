package orders

import (
	"context"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Owned returns the attributions of the given generations. The keys of the map are generation IDs. Owned omits generations that
// belong to other owners or have no order. A nil owner means any owner.
func (o *Orders) Owned(ctx context.Context, owner *string, generationIDs ...string) (map[string]ledger.Attribution, error) {
	return o.Ledger.Attributions(ctx, owner, generationIDs...)
}

// maxCovered is the maximum number of existing generations that a watch of everything covers at its start. It is also the
// maximum number of unsettled generations.
const maxCovered = 10_000

// Existing returns the IDs of the newest generations that match a filter and that the catalog still has.
func (o *Orders) Existing(ctx context.Context, f ledger.Filter) (generationIDs []string, err error) {
	f.Statuses, f.Existing, f.Deleted, f.Unsettled = nil, true, false, false
	return o.Ledger.Generations(ctx, f, maxCovered)
}

// Unsettled returns the IDs of the newest generations that match a filter and whose cost is not final.
func (o *Orders) Unsettled(ctx context.Context, f ledger.Filter) (generationIDs []string, err error) {
	f.Statuses, f.Existing, f.Deleted, f.Unsettled = nil, false, false, true
	return o.Ledger.Generations(ctx, f, maxCovered)
}

// IsSettled reports whether the cost of a generation is final according to the ledger. It returns true for a generation without
// an order.
func (o *Orders) IsSettled(ctx context.Context, generationID string) (bool, error) {
	found, err := o.Ledger.Own(ctx, nil, generationID)
	order, known := found[generationID]
	return !known || order.Settled, err
}

// NotFound handles err, a 404 error from a call's read of a generation. One 404 does not prove that the generation is deleted,
// so NotFound returns the generation as recorded in the ledger. ok is false if Easel treats the generation as deleted, if the
// owner has no order for it, or if the ledger fails. A nil owner means any owner.
func (o *Orders) NotFound(ctx context.Context, cred catalog.Credential, owner *string, generationID string, err error) (recorded catalog.Version, ok bool) {
	found, failed := o.Ledger.Own(ctx, owner, generationID)
	order, known := found[generationID]
	if failed != nil || !known || order.IsDeleted() {
		return recorded, false
	}
	if catalog.IsAbsent(err) && o.witnessed(ctx, cred, generationID) {
		return recorded, false
	}
	return recordedVersion(order), true
}

// witnessed records that a call's read did not find a generation. First, it reads the account to find out whether the catalog
// responds. It reports whether Easel now treats the generation as deleted.
func (o *Orders) witnessed(ctx context.Context, cred catalog.Credential, generationID string) (deleted bool) {
	_, err := o.Catalog.Account(ctx, cred)
	deleted, failed := o.absent(ctx, cred, generationID, err == nil)
	return deleted && failed == nil
}

// absent records that a read did not find a generation. If witnessed is true, another read under the same API key has
// succeeded. If Easel now treats the generation as deleted, absent notifies its watchers.
func (o *Orders) absent(ctx context.Context, cred catalog.Credential, generationID string, witnessed bool) (deleted bool, err error) {
	seen := ledger.Observation{Observation: lifecycle.Observation{NotFound: true, Witnessed: witnessed}, APIKey: cred.ForwardedSum()}
	effect, err := o.observe(ctx, generationID, seen)
	if effect.Deleted {
		o.Hub.PresumedDeleted(ctx, cred, generationID)
	}
	return effect.Deleted, err
}
