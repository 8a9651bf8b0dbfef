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
	// Position is the position in the list.
	Position ledger.Position

	settled bool // the money is settled
}

// List returns the latest generations whose orders match a filter, after a position.
func (o *Orders) List(ctx context.Context, f ledger.Filter, after ledger.Position, most int) (all []Listed, err error) {
	found, err := o.Ledger.List(ctx, f, after, most)
	for _, order := range found {
		all = append(all, Listed{
			recordedVersion(order), order.Attribution(), ledger.Position{Time: order.Time, ID: order.ID}, order.Settled,
		})
	}
	return all, err
}

// ListedLater records a state of the catalog's list that is later than the recorded one. It ignores the same state, because a
// list may have fewer details than a single read. It also ignores a terminal state with missing details, if the settler will
// read the generation.
func (o *Orders) ListedLater(cred catalog.Credential, recorded Listed, v catalog.Version) {
	later := v.State == catalog.StateRefunded || watch.StatusOf(recorded.State).MayBecome(watch.StatusOf(v.State))
	if recorded.State == catalog.StateDeleted || v.State == recorded.State || !later {
		return
	}
	if cred.IsShared() && !recorded.settled && leavesOut(v, o.Ledger.IsSubscriber(recorded.Owner)) {
		return
	}
	o.Sighted(watch.Sighting{Credential: cred, Version: v})
}
