package orders

import (
	"context"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// Listed is a generation as the ledger has recorded it.
type Listed struct {
	catalog.Generation
	Attribution
	// Position is its place in the list.
	Position ledger.Position
}

// List gives the newest generations whose orders a filter chooses, after a position.
func (o *Orders) List(ctx context.Context, f ledger.Filter, after ledger.Position, most int) (all []Listed, err error) {
	var found []ledger.Order
	err = ask(ctx, func(ctx context.Context) (err error) {
		found, err = o.Ledger.List(ctx, f, after, most)
		return err
	})
	for _, order := range found {
		all = append(all, Listed{
			recordedGeneration(order), Attribution{order.Owner, order.Caller, order.Labels}, ledger.Position{Time: order.Time, ID: order.ID},
		})
	}
	return all, err
}

// Usage counts orders and money.
func (o *Orders) Usage(ctx context.Context, q ledger.UsageQuery) (all []ledger.Usage, err error) {
	err = ask(ctx, func(ctx context.Context) (err error) {
		all, err = o.Ledger.Usage(ctx, q)
		return err
	})
	return all, err
}

// Budgets gives the budgets of an owner that have a limit.
func (o *Orders) Budgets(ctx context.Context, owner string, limits ledger.Limits) (all []ledger.Budget, err error) {
	if limits == (ledger.Limits{}) {
		return nil, nil
	}
	err = ask(ctx, func(ctx context.Context) (err error) {
		all, err = o.Ledger.Budgets(ctx, owner, limits)
		return err
	})
	return all, err
}
