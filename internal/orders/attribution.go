package orders

import (
	"context"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Owned returns the attributions of the given generations. The keys of the map are generation IDs. The map contains only
// generations for which the owner has an order. A nil owner means any owner.
func (o *Orders) Owned(ctx context.Context, owner *string, generationIDs ...string) (map[string]ledger.Attribution, error) {
	return o.Ledger.Attributions(ctx, owner, generationIDs...)
}

// maxCovered is the maximum number of generation IDs that [Orders.Existing] and [Orders.Unsettled] return. It limits the
// generations that a watch of all generations covers at its start.
const maxCovered = 10_000

// Existing returns the IDs of the newest generations, at most maxCovered, that match a filter and are not recorded as deleted.
func (o *Orders) Existing(ctx context.Context, f ledger.Filter) (generationIDs []string, err error) {
	f.Statuses, f.Existing, f.Deleted, f.Unsettled = nil, true, false, false
	return o.Ledger.Generations(ctx, f, maxCovered)
}

// Unsettled returns the IDs of the newest generations, at most maxCovered, that match a filter and whose cost is not final yet.
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

// NotFound returns the recorded state of a generation after a read of it from the catalog has failed with err. One failed read
// does not prove that the generation is deleted. ok is false if Easel treats the generation as deleted, if the owner has no
// order for it, or if the ledger fails. A nil owner means any owner.
func (o *Orders) NotFound(ctx context.Context, cred catalog.Credential, owner *string, generationID string, err error) (recorded catalog.Version, ok bool) {
	found, failed := o.Ledger.Own(ctx, owner, generationID)
	order, known := found[generationID]
	if failed != nil || !known || order.IsDeleted() {
		return recorded, false
	}
	if catalog.IsAbsent(err) && o.recordWitnessed(ctx, cred, generationID) {
		return recorded, false
	}
	return recordedVersion(order), true
}

// recordWitnessed records that a read did not find a generation in the catalog. It first reads the account to find out whether
// the catalog responds. It returns true if Easel now treats the generation as deleted.
func (o *Orders) recordWitnessed(ctx context.Context, cred catalog.Credential, generationID string) (isDeleted bool) {
	_, err := o.Catalog.Account(ctx, cred)
	isDeleted, failed := o.recordAbsence(ctx, cred, generationID, err == nil)
	return isDeleted && failed == nil
}

// recordAbsence records in the ledger that a read did not find a generation. isWitnessed is true if another read with the same
// API key has succeeded. If Easel now treats the generation as deleted, recordAbsence returns true and notifies the
// generation's watchers.
func (o *Orders) recordAbsence(ctx context.Context, cred catalog.Credential, generationID string, isWitnessed bool) (isDeleted bool, err error) {
	seen := ledger.Observation{Observation: lifecycle.Observation{NotFound: true, Witnessed: isWitnessed}, APIKey: cred.ForwardedSum()}
	effect, err := o.observeOne(ctx, generationID, seen)
	if effect.Deleted {
		o.Hub.PresumedDeleted(ctx, cred, generationID)
	}
	return effect.Deleted, err
}
