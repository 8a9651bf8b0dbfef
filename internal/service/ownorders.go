package service

import (
	"context"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

// How often the ledger is asked for the orders of those who watch everything of theirs: soon after an order of this process,
// every few seconds for those of others, and now and then for what an operator has settled.
const (
	ownLeast       = 100 * time.Millisecond
	ownMost        = 30 * time.Second
	ownMostOfOther = 2 * time.Second
)

// ownEvery is how often the ledger is asked though nothing rings.
func ownEvery(from *orders.Orders) time.Duration {
	if from.Ledger != nil && from.Ledger.IsShared() {
		return ownMostOfOther
	}
	return ownMost
}

// ownOrdersOf joins those who watch everything of an owner, and waits for what the ledger knows by now.
func (s *Service) ownOrdersOf(ctx context.Context, owner *string) (own *orders.OwnOrders, leave func(), err error) {
	cred := credential(ctx)
	began := time.Now()
	joined := s.own.join(viewerOf(owner), s.cfg.Orders.OwnOrders(cred, owner).Read)
	for {
		now := joined.newest()
		switch {
		case now.err != nil:
			joined.leave()
			return nil, nil, now.err
		case now.known && !now.since.Before(began):
			return now.value, joined.leave, nil
		}
		select {
		case <-joined.changed:
		case <-ctx.Done():
			joined.leave()
			return nil, nil, context.Cause(ctx)
		}
	}
}

func viewerOf(owner *string) orders.Viewer {
	if owner == nil {
		return orders.Viewer{Everybody: true}
	}
	return orders.Viewer{Owner: *owner}
}

// chosen is what a filter chooses of them.
type chosen struct {
	*orders.OwnOrders
	filter *easelv1.GenerationFilter
}

// chosenOf gives what a filter chooses of an owner's orders. Those who have the same are asked once for all.
func chosenOf(own *orders.OwnOrders, filter *easelv1.GenerationFilter) watch.Chosen {
	if filter.GetModelId() == "" && len(filter.GetLabels()) == 0 {
		return own
	}
	return chosen{own, filter}
}

// Has implements watch.Chosen.
func (c chosen) Has(id string) bool {
	whose, ok := c.Whose(id)
	return ok && !excludes(c.filter, whose.Model, whose)
}
