package orders

import (
	"context"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// Listed is a generation as recorded in the ledger.
type Listed struct {
	catalog.Version
	ledger.Attribution
	// Position is the position of the generation in the ledger's list, for the next call to [Orders.List].
	Position ledger.Position

	settled bool // whether the cost is final
}

// List returns at most limit generations whose orders match a filter, newest first, starting after the given position.
func (o *Orders) List(ctx context.Context, f ledger.Filter, after ledger.Position, limit int) (all []Listed, err error) {
	found, err := o.Ledger.List(ctx, f, after, limit)
	for _, order := range found {
		all = append(all, Listed{
			recordedVersion(order), order.Attribution(), ledger.Position{Time: order.Time, ID: order.ID}, order.Settled,
		})
	}
	return all, err
}

// ListedLater compares a catalog list with the recorded generations, and records each state in the list that is later
// than the recorded state. It stops after one second. Any states that are still unrecorded are left for the next list or
// the settle job.
func (o *Orders) ListedLater(ctx context.Context, cred catalog.Credential, recorded []Listed, listed *catalog.List) {
	var later []watch.Sighting
	for _, r := range recorded {
		if v, ok := listed.Find(r.ID); ok && o.isLater(cred, r, v) {
			later = append(later, watch.Sighting{Version: v})
		}
	}
	if len(later) > 0 {
		ctx, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		o.Record(ctx, cred, later)
	}
}

// isLater reports whether the state v from the list should replace the recorded state. It returns false if both states
// are the same, even if their details differ, or if v can't follow the recorded state. With the shared API key, it also
// returns false if v lacks details that the settle job will read.
func (o *Orders) isLater(cred catalog.Credential, recorded Listed, v catalog.Version) bool {
	later := v.State == catalog.StateRefunded || watch.StatusOf(recorded.State).MayBecome(watch.StatusOf(v.State))
	if recorded.State == catalog.StateDeleted || v.State == recorded.State || !later {
		return false
	}
	return !cred.IsShared() || recorded.settled || !lacksCharge(v, o.Ledger.IsSubscriber(recorded.Owner))
}
