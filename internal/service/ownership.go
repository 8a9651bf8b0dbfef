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

// viewer returns the owner whose generations a call may see. It returns nil if the call may see the generations of all
// owners.
func viewer(ctx context.Context) *string {
	if auth.Of(ctx).SeesAll() {
		return nil
	}
	return orderer(ctx)
}

// orderer returns the owner of the orders that a call places; it never returns nil. Unless the caller is an operator,
// the call may change only orders of this owner.
func orderer(ctx context.Context) *string {
	owner := auth.Of(ctx).Owner
	return &owner
}

// order contains the ledger's information about a generation.
type order struct {
	ledger.Attribution
	ordered bool // whether an order exists; also true if the ledger is unavailable
}

// mayExist reports whether an order for the generation exists or may exist, and the generation is not recorded as
// deleted.
func (o order) mayExist() bool { return o.ordered && !o.Deleted }

// mayLack reports whether version v of the generation may be missing from the ledger.
func (o order) mayLack(v catalog.Version) bool { return o.ordered && o.Recorded != v.Etag }

// visibleOrder returns the ledger's information about a generation. If the caller may not see the generation of
// another owner, the error is the same as for a generation without an order.
func (s *Service) visibleOrder(ctx context.Context, id string) (order, error) {
	owner := viewer(ctx)
	own, err := s.cfg.Orders.Owned(ctx, owner, id)
	whose, ok := own[id]
	seen := order{whose, err != nil || ok}
	switch {
	case !mustHide(ctx, owner):
		return seen, nil // if the ledger is unavailable, the attribution is empty
	case err == nil && !ok:
		err = noGeneration(id)
	}
	return seen, err
}

// mayDelete returns an error if the caller may not delete a generation. An operator may delete every generation. With
// forwarded API keys, mayDelete returns nil, because the catalog decides.
func (s *Service) mayDelete(ctx context.Context, id string) error {
	owner := orderer(ctx)
	if auth.Of(ctx).Operator || !mustHide(ctx, owner) {
		return nil
	}
	own, err := s.cfg.Orders.Owned(ctx, owner, id)
	if _, ok := own[id]; err == nil && !ok {
		return noGeneration(id)
	}
	return err
}

// auditDeletion records in the audit log that an operator is about to delete another owner's generation. It does
// nothing if the caller is not an operator or owns the generation.
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

// mustHide reports whether Easel must hide the generations of other owners from a call. visibleOwner is the owner
// whose generations the call may see, or nil if the call may see the generations of all owners.
func mustHide(ctx context.Context, visibleOwner *string) bool {
	return visibleOwner != nil && auth.Of(ctx).IsIsolated()
}

// AddressKey is the context key of the caller's network address. The value is a string.
type AddressKey struct{}

func addressOf(ctx context.Context) string {
	address, _ := ctx.Value(AddressKey{}).(string)
	return address
}

const (
	askTimeout = time.Second // timeout of a ledger query for an open watch; short, because the query delays heartbeats
	askPause   = time.Second // time to wait after a failed query before an open watch sends the next query
)

// errNotAsked is the error of a query that was not sent, because the previous query failed less than [askPause] ago.
var errNotAsked = errors.New("ledger query not sent, because the previous query failed less than a second ago")

// readAttribution reads the attribution of a generation (owner, caller, model and labels) for an open watch.
func (s *Service) readAttribution(ctx context.Context, id string) (ledger.Attribution, error) {
	if time.Now().UnixNano() < s.askAt.Load() {
		return ledger.Attribution{}, errNotAsked
	}
	var owner *string
	if !auth.Of(ctx).SharesAPIKey() {
		owner = orderer(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout) // the query continues if this call is canceled, because other watches share its result
	defer cancel()
	own, err := s.cfg.Orders.Owned(ctx, owner, id)
	if err != nil {
		s.askAt.Store(time.Now().Add(askPause).UnixNano())
	}
	return own[id], err
}

// withoutLabels returns a copy of known without labels, for use while the ledger is unavailable. The labels may have
// been erased since they were read.
func withoutLabels(known ledger.Attribution) ledger.Attribution {
	known.Labels = nil
	return known
}

// attributedMessage converts an update to a message, and adds the given attribution.
func (s *Service) attributedMessage(u watch.Update, whose ledger.Attribution) *easelv1.Generation {
	return addAttribution(generationMessage(u.Generation, u.Etag), whose)
}

// addAttribution adds an attribution to a message. If the attribution has no caller, its owner is a digest of an API
// key and is omitted.
func addAttribution(g *easelv1.Generation, whose ledger.Attribution) *easelv1.Generation {
	if whose.Caller != "" {
		g.Owner = whose.Owner
	}
	g.Caller, g.Labels = whose.Caller, whose.Labels
	return g
}

// hiddenUpdate returns the update that a watch of many generations sends for an ID that its caller may not see.
func hiddenUpdate(id string) *watch.Update {
	g, now := catalog.Generation{ID: id, State: catalog.StateDeleted}, time.Now()
	v := g.Version() // computed before the times are set, so that the etag depends only on the ID and the state
	v.TerminalTime, v.ObserveTime = now, now
	return &watch.Update{Version: v, Initial: true, Missing: true}
}
