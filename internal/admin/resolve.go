package admin

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Resolution is an operator's decision about an order's outcome.
type Resolution struct {
	// ID is an order ID, a generation ID or an idempotency key. In a response, it is the order ID.
	ID string `json:"id"`
	// Placed is the ID of the generation that the order started. If it is empty, Refused must be true.
	Placed  string `json:"placed,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Force means that the generation is recorded without first checking in the catalog whether it can belong to the order.
	Force bool `json:"force,omitempty"`
}

// serveResolution serves POST /orders:resolve.
func (o Orders) serveResolution(ctx context.Context, asked Resolution) (Resolution, error) {
	if asked.ID == "" || (asked.Placed == "") != asked.Refused {
		return asked, newInvalidMember(`send {"id": ORDER, "placed": GENERATION} or {"id": ORDER, "refused": true}`)
	}
	order, err := o.findOne(ctx, asked.ID)
	if err == nil && asked.Placed != "" {
		err = o.checkGeneration(ctx, order, asked)
	}
	if err != nil {
		return asked, err
	}
	asked.ID = order.ID
	_, possible, err := o.Ledger.Resolve(ctx, order.ID, o.apiKey(), ledger.Resolution{Generation: asked.Placed, By: byOf(ctx), Forced: asked.Force})
	switch {
	case errors.Is(err, ledger.ErrGenerationTaken):
		err = newConflict("another order has placed %s", asked.Placed)
	case errors.Is(err, ledger.ErrKeyTaken):
		err = newConflict("the order's idempotency key was used for another order in the meantime")
	case err == nil && !possible:
		err = impossibleError(order)
	}
	return asked, err
}

// findOne returns the order with the given name, which is an order ID, a generation ID or an idempotency key. An order ID takes
// precedence. findOne returns a problem if no order or several orders have the name.
func (o Orders) findOne(ctx context.Context, name string) (order ledger.Order, err error) {
	found, err := o.Ledger.Find(ctx, name, maxNamed)
	if err != nil {
		return order, err
	}
	var names []string
	for _, one := range found {
		if one.ID == name {
			return one, nil
		}
		names = append(names, one.ID+" of "+cmp.Or(one.Owner, "nobody"))
	}
	switch len(found) {
	case 0:
		return order, newConflict("the ledger has no order, render or idempotency key %s: easel orders list shows the newest orders", name)
	case 1:
		return found[0], nil
	}
	return order, newConflict("%s identifies several orders; use the ID of one order: %s", name, strings.Join(names, ", "))
}

// checkGeneration returns a problem if the catalog shows that the generation can't belong to the order, or if the generation
// can't be checked in the catalog.
func (o Orders) checkGeneration(ctx context.Context, order ledger.Order, asked Resolution) error {
	switch {
	case !catalog.CanBeNamed(asked.Placed):
		return newConflict("invalid render id %q", asked.Placed)
	case asked.Force:
		return nil
	case o.SharedKey == nil:
		return newConflict("callers use their own API keys, so %s can't be checked in the catalog; use --force to record it anyway", asked.Placed)
	}
	read, err := o.Catalog.Generation(ctx, *o.SharedKey, asked.Placed)
	switch {
	case catalog.IsAbsent(err):
		return newConflict("the catalog has no render %s; use --force to record it anyway", asked.Placed)
	case err != nil:
		return newConflict("%s can't be checked in the catalog; retry, or use --force to record it anyway (%v)", asked.Placed, err)
	case read.ModelID != "" && read.ModelID != order.ModelID:
		return newConflict("%s has the model %s, but the order has %s; use --force to record it anyway", asked.Placed, read.ModelID, order.ModelID)
	}
	return nil
}

// impossibleError returns an error that explains why an operator can't set the outcome of an order. It is called only for
// orders that [ledger.Ledger.Resolve] did not resolve.
func impossibleError(order ledger.Order) error {
	switch {
	case order.Generation != "":
		return newConflict("the outcome is known: the order placed %s", order.Generation)
	case order.State == lifecycle.Refused:
		return newConflict("the outcome is known: the catalog rejected the order")
	case order.IsPastExpireTime():
		return newConflict("the last attempt may still be in flight; wait for %s", ledger.OrderLease)
	}
	return newConflict("the order may still be sent again; wait until EASEL_RESEND_WINDOW has passed since %s", order.Time.Format(time.RFC3339))
}
