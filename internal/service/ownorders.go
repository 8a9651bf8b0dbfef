package service

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

// How often the ledger is asked for the orders of those who watch everything of theirs: soon after an order of this process,
// every few seconds for those of others, and now and then for what an operator has settled.
const (
	ownLeast       = 100 * time.Millisecond
	ownMost        = 30 * time.Second
	ownMostOfOther = 2 * time.Second
	ownAgain       = 100 // orders that the ledger is asked for each time
)

// ownEvery is how often the ledger is asked though nothing rings.
func ownEvery(from *orders.Orders) time.Duration {
	if from.Ledger != nil && from.Ledger.IsShared() {
		return ownMostOfOther
	}
	return ownMost
}

// ownOrders are the orders of an owner, or of everybody, as the ledger knows them: for all who watch everything of theirs.
type ownOrders struct {
	owner *string // nil: everybody

	mu        sync.Mutex
	begun     bool
	all       map[string]orders.Attribution // by generation
	unsettled []string
}

// ownOrdersOf joins those who watch everything of an owner, and waits for what the ledger knows by now.
func (s *Service) ownOrdersOf(ctx context.Context, owner *string) (own *ownOrders, leave func(), err error) {
	cred := credential(ctx)
	if err := s.cfg.Orders.Proven(ctx, cred); err != nil {
		return nil, nil, err
	}
	began := time.Now()
	joined := s.own.join(viewerOf(owner), s.ownReader(cred, owner))
	for {
		now := joined.newest()
		switch {
		case now.known && (now.err != nil || !now.since.Before(began)):
			return now.value, joined.leave, nil //nolint:nilerr // what it has answered before counts
		case now.err != nil:
			joined.leave()
			return nil, nil, now.err
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

// ownReader gives what reads the orders of an owner. The hub learns of those that are new.
func (s *Service) ownReader(cred catalog.Credential, owner *string) func(context.Context) (*ownOrders, error) {
	own := &ownOrders{owner: owner, all: map[string]orders.Attribution{}}
	return func(ctx context.Context) (*ownOrders, error) {
		found, err := own.ask(ctx, s.cfg.Orders)
		if err == nil {
			s.cfg.Hub.Discovered(cred, own.note(found)...)
		}
		return own, err
	}
}

// ask asks for the newest orders, all at first, as the catalog may list any of them, and for those whose money may still
// move. Later a few tell of those that were settled before anybody asked.
func (o *ownOrders) ask(ctx context.Context, from *orders.Orders) (found ownFound, err error) {
	most := ownAgain
	if !o.begun {
		most = math.MaxInt
	}
	if found.newest, err = from.Newest(ctx, ledger.Filter{Owner: o.owner, Existing: true}, most); err == nil {
		found.unsettled, err = from.Newest(ctx, ledger.Filter{Owner: o.owner, Unsettled: true}, math.MaxInt)
	}
	return found, err
}

// ownFound is an answer of the ledger.
type ownFound struct{ newest, unsettled []orders.Listed }

// note notes what the ledger has answered, and gives the generations that are new since the first answer.
func (o *ownOrders) note(found ownFound) (fresh []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, order := range slices.Concat(found.newest, found.unsettled) {
		if _, ok := o.all[order.ID]; !ok && o.begun {
			fresh = append(fresh, order.ID)
		}
		o.all[order.ID] = order.Attribution
	}
	o.begun, o.unsettled = true, nil
	for _, order := range found.unsettled {
		o.unsettled = append(o.unsettled, order.ID)
	}
	return fresh
}

func (o *ownOrders) of(id string) (whose orders.Attribution, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	whose, ok = o.all[id]
	return whose, ok
}

// chosen is what a filter chooses of them.
type chosen struct {
	*ownOrders
	filter *easelv1.GenerationFilter
}

// Has implements watch.Chosen.
func (c chosen) Has(id string) bool {
	whose, ok := c.of(id)
	return ok && !excludes(c.filter, whose.Model, whose)
}

// Unsettled implements watch.Chosen.
func (c chosen) Unsettled() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.unsettled)
}
