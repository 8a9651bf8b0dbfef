package service

import (
	"context"
	"slices"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

// Visibility says who may see the answer of a method.
type Visibility string

const (
	// Everybody may see what is the same for all callers.
	Everybody Visibility = "everybody"
	// ByOwner is an answer about generations: the owner's alone, and everybody's for operators.
	ByOwner Visibility = "by owner"
	// ForOperators is an answer in which the account's money is for operators.
	ForOperators Visibility = "for operators"
)

// Visibilities has every method of the contract.
var Visibilities = map[string]Visibility{
	easelv1.AccountService_GetAccount_FullMethodName:            ForOperators,
	easelv1.AccountService_ListUsage_FullMethodName:             ByOwner,
	easelv1.ModelService_ListModels_FullMethodName:              Everybody,
	easelv1.ModelService_GetModel_FullMethodName:                Everybody,
	easelv1.GenerationService_QuoteGeneration_FullMethodName:    ForOperators,
	easelv1.GenerationService_CreateGeneration_FullMethodName:   ByOwner,
	easelv1.GenerationService_GetGeneration_FullMethodName:      ByOwner,
	easelv1.GenerationService_ListGenerations_FullMethodName:    ByOwner,
	easelv1.GenerationService_WaitGeneration_FullMethodName:     ByOwner,
	easelv1.GenerationService_WatchGeneration_FullMethodName:    ByOwner,
	easelv1.GenerationService_WatchGenerations_FullMethodName:   ByOwner,
	easelv1.GenerationService_DownloadGeneration_FullMethodName: ByOwner,
	easelv1.GenerationService_DeleteGeneration_FullMethodName:   ByOwner,
}

// viewer is whose generations a call sees; nil is everybody's.
func viewer(ctx context.Context) *string {
	if who(ctx).operator {
		return nil
	}
	return orderer(ctx)
}

// orderer is whom the orders of a call belong to, which are all that it may change.
func orderer(ctx context.Context) *string {
	owner := orders.Owner(credential(ctx))
	return &owner
}

// see says whose a generation is, or that it does not exist for the call: one of somebody else and one that
// nobody has are the same to it.
func (s *Service) see(ctx context.Context, id string) (orders.Attribution, error) {
	return s.seeAs(ctx, viewer(ctx), id)
}

func (s *Service) seeAs(ctx context.Context, owner *string, id string) (orders.Attribution, error) {
	own, err := s.seen(ctx, owner, id)
	if err != nil {
		return orders.Attribution{}, err
	}
	whose, ok := own[id]
	if !ok && s.hides(ctx, owner) {
		return whose, noGeneration(id)
	}
	return whose, nil
}

// hides reports whether a call sees none but the generations that the ledger calls its own. With a forwarded API
// key the catalog says who sees what.
func (s *Service) hides(ctx context.Context, owner *string) bool {
	return s.cfg.Orders != nil && credential(ctx).Held && owner != nil
}

// seen says whose generations are, of those that the ledger knows as an owner's. Whoever sees all of them does so
// without the ledger too.
func (s *Service) seen(ctx context.Context, owner *string, ids ...string) (map[string]orders.Attribution, error) {
	if s.cfg.Orders == nil || !credential(ctx).Held && !s.cfg.Orders.IsProven(credential(ctx)) {
		return nil, nil
	}
	own, err := s.cfg.Orders.Owned(ctx, owner, ids...)
	if !s.hides(ctx, owner) {
		return own, nil //nolint:nilerr // its labels alone are missing
	}
	return own, err
}

// message is the message of a state, with whose it is.
func (s *Service) message(u watch.Update, whose orders.Attribution) *easelv1.Generation {
	return attributed(generationMessage(u.Generation, u.Etag), whose)
}

// attributed adds whose a generation is. An API key is nobody's name.
func attributed(g *easelv1.Generation, whose orders.Attribution) *easelv1.Generation {
	if whose.Caller != "" {
		g.Owner = whose.Owner
	}
	g.Caller, g.Labels = whose.Caller, whose.Labels
	return g
}

// hidden are the updates of generations that do not exist for the call, in a watch of many.
func hidden(ids []string) (updates []*watch.Update) {
	now := time.Now()
	for _, id := range ids {
		g := catalog.Generation{ID: id, State: catalog.StateDeleted, TerminalTime: now, ObserveTime: now}
		updates = append(updates, &watch.Update{Generation: g, Etag: g.Etag(), Initial: true, Missing: true})
	}
	return updates
}

// ownWatch keeps to a caller's own in a watch of everything. What the ledger can't tell about for now waits for
// the next event.
type ownWatch struct {
	service *Service
	ctx     context.Context
	waiting map[string]*watch.Update
	askAt   time.Time // the ledger is not asked before, after it has failed
	sent    int
}

// askPause is how long the ledger is not asked after it has failed in a watch.
const askPause = time.Second

// own gives the updates of an event that are the caller's, with whose they are.
func (w *ownWatch) own(event watch.Event) (updates []*watch.Update) {
	if event.Update != nil {
		w.waiting[event.Update.Generation.ID] = event.Update
	}
	if len(w.waiting) == 0 || time.Now().Before(w.askAt) {
		return nil
	}
	ids := make([]string, 0, len(w.waiting))
	for id := range w.waiting {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	own, err := w.service.seen(w.ctx, viewer(w.ctx), ids...)
	for _, id := range ids {
		if _, ok := own[id]; ok {
			updates = append(updates, w.waiting[id])
		}
		if _, ok := own[id]; ok || err == nil {
			delete(w.waiting, id)
		}
	}
	if err != nil {
		w.askAt = time.Now().Add(askPause)
	}
	w.sent += len(updates)
	return updates
}
