package service

import (
	"context"
	"errors"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// viewer returns the owner whose generations a call may see. Nil means all owners.
func viewer(ctx context.Context) *string {
	if auth.Of(ctx).SeesAll() {
		return nil
	}
	return orderer(ctx)
}

// orderer returns the owner of the orders of a call. The call may change only these.
func orderer(ctx context.Context) *string {
	owner := auth.Of(ctx).Owner
	return &owner
}

// order is the information in the ledger about a generation.
type order struct {
	ledger.Attribution
	ordered bool // the order exists, or may exist because the ledger is unavailable
}

// exists reports whether the order may exist, and its generation is not recorded as deleted.
func (o order) exists() bool { return o.ordered && !o.Gone }

// lacks reports whether the ledger may lack a state of the generation.
func (o order) lacks(v catalog.Version) bool { return o.ordered && o.Recorded != v.Etag }

// see returns the order of a generation that the call may see. For an isolated call, a generation of another owner does
// not exist, just like one without an order.
func (s *Service) see(ctx context.Context, id string) (order, error) {
	owner := viewer(ctx)
	own, err := s.cfg.Orders.Owned(ctx, owner, id)
	whose, ok := own[id]
	seen := order{whose, err != nil || ok}
	switch {
	case !hides(ctx, owner):
		return seen, nil // without the ledger the attribution is missing
	case err == nil && !ok:
		err = noGeneration(id)
	}
	return seen, err
}

// mayDelete rejects a generation of another owner or one that does not exist, unless the caller is an operator.
func (s *Service) mayDelete(ctx context.Context, id string) error {
	owner := orderer(ctx)
	if auth.Of(ctx).Operator || !hides(ctx, owner) {
		return nil
	}
	own, err := s.cfg.Orders.Owned(ctx, owner, id)
	if _, ok := own[id]; err == nil && !ok {
		return noGeneration(id)
	}
	return err
}

// auditDeletion records in the audit that an operator is about to delete another owner's generation.
func (s *Service) auditDeletion(ctx context.Context, id string) error {
	c := auth.Of(ctx)
	if !c.Operator {
		return nil
	}
	found, err := s.cfg.Orders.Ledger.Own(ctx, nil, id)
	whose, known := found[id]
	if err != nil || known && whose.Owner == *orderer(ctx) {
		return err
	}
	act := ledger.Deletion(ledger.By{Actor: c.Caller, Origin: addressOf(ctx)}, id, "", "")
	if known {
		act = ledger.Deletion(act.By, id, whose.Owner, whose.Status.String())
	}
	return s.cfg.Orders.Ledger.Audit(ctx, act)
}

// hides reports whether a call may see only the generations that the ledger lists for owner. A nil owner means all owners.
func hides(ctx context.Context, owner *string) bool { return owner != nil && auth.Of(ctx).IsIsolated() }

// AddressKey is the context key of the network address of the caller. The value is a string.
type AddressKey struct{}

func addressOf(ctx context.Context) string {
	address, _ := ctx.Value(AddressKey{}).(string)
	return address
}

const (
	askTimeout = time.Second // maximum time of a query of an open watch, which delays its heartbeats
	askPause   = time.Second // time without queries of open watches after a failed one
)

// errNotAsked is the error of a query that was not sent, because the previous query failed less than [askPause] ago.
var errNotAsked = errors.New("ledger query failed a moment ago; not repeated yet")

// attribution returns the attribution of a generation for an open watch.
func (s *Service) attribution(ctx context.Context, id string) (ledger.Attribution, error) {
	if time.Now().UnixNano() < s.askAt.Load() {
		return ledger.Attribution{}, errNotAsked
	}
	var owner *string
	if !auth.Of(ctx).SharesAPIKey() {
		owner = orderer(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout) // other watches use the result
	defer cancel()
	own, err := s.cfg.Orders.Owned(ctx, owner, id)
	if err != nil {
		s.askAt.Store(time.Now().Add(askPause).UnixNano())
	}
	return own[id], err
}

// withoutLabels returns the attribution of an earlier update for an update while the ledger is unavailable. It omits the labels,
// which may have been erased since.
func withoutLabels(known ledger.Attribution) ledger.Attribution {
	known.Labels = nil
	return known
}

// message converts an update and its attribution to a message.
func (s *Service) message(u watch.Update, whose ledger.Attribution) *easelv1.Generation {
	return attributed(generationMessage(u.Generation, u.Etag), whose)
}

// attributed adds the attribution to a message. It omits the owner if there is no caller, because that owner is an API key.
func attributed(g *easelv1.Generation, whose ledger.Attribution) *easelv1.Generation {
	if whose.Caller != "" {
		g.Owner = whose.Owner
	}
	g.Caller, g.Labels = whose.Caller, whose.Labels
	return g
}

// hidden returns the update for a generation that does not exist for the call, in a watch of many.
func hidden(id string) *watch.Update {
	g, now := catalog.Generation{ID: id, State: catalog.StateDeleted}, time.Now()
	v := g.Version() // its etag is always the same
	v.TerminalTime, v.ObserveTime = now, now
	return &watch.Update{Version: v, Initial: true, Missing: true}
}
