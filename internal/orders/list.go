package orders

import (
	"context"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// Listed is a generation as the ledger has recorded it.
type Listed struct {
	catalog.Version
	ledger.Attribution
	// Position is its place in the list.
	Position ledger.Position

	settled bool // nobody looks at it any more
}

// List gives the newest generations whose orders a filter chooses, after a position.
func (o *Orders) List(ctx context.Context, f ledger.Filter, after ledger.Position, most int) (all []Listed, err error) {
	found, err := o.Ledger.List(ctx, f, after, most)
	for _, order := range found {
		all = append(all, Listed{
			recordedVersion(order), order.Attribution(), ledger.Position{Time: order.Time, ID: order.ID}, order.Settled,
		})
	}
	return all, err
}

// ListedLater notes a state of the catalog's list that is later than the recorded one. What the list says of the same
// state is not noted: it may be less than what a read says. Nor is an end of which it leaves something out, where the
// settler reads it.
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
