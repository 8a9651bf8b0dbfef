package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Resolution is an operator's decision on the outcome of an order.
type Resolution struct {
	// ID is the ID of the order, its generation or its idempotency key. In a response it is the order's ID.
	ID string `json:"id"`
	// Placed is the generation that the order placed. If it is empty, Refused must be set.
	Placed  string `json:"placed,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Force records a generation without a check in the catalog.
	Force bool `json:"force,omitempty"`
}

// resolve serves POST /orders:resolve.
func (o Orders) resolve(w http.ResponseWriter, r *http.Request) {
	var asked Resolution
	if err := decode(w, r, &asked); err != nil || asked.ID == "" || (asked.Placed == "") != asked.Refused {
		http.Error(w, `send {"id": ORDER, "placed": GENERATION} or {"id": ORDER, "refused": true}`, http.StatusBadRequest)
		return
	}
	id, hindrance, err := o.idOf(r.Context(), asked.ID)
	if asked.ID = id; id != "" {
		hindrance, err = o.record(r.Context(), asked)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case hindrance != "":
		http.Error(w, hindrance, http.StatusConflict)
	default:
		answer(w, asked, nil)
	}
}

// idOf returns the ID of the only order with a name. If it returns none, problem is the reason.
func (o Orders) idOf(ctx context.Context, name string) (id, problem string, err error) {
	found, err := o.Ledger.Find(ctx, name, mostNamed)
	var names []string
	for _, one := range found {
		if one.ID == name {
			return name, "", nil
		}
		names = append(names, one.ID+" of "+cmp.Or(one.Owner, "nobody"))
	}
	switch {
	case err != nil:
		return "", "", err
	case len(found) == 0:
		return "", "the ledger has no order, render or idempotency key " + name + ": easel orders list shows the newest", nil
	case len(found) > 1:
		return "", name + " is the name of several orders; use the id of one: " + strings.Join(names, ", "), nil
	}
	return found[0].ID, "", nil
}

// record records the outcome of an order. It returns the reason if that is not possible, or "".
func (o Orders) record(ctx context.Context, asked Resolution) (hindrance string, err error) {
	if asked.Placed != "" {
		if hindrance, err := o.Differs(ctx, asked); hindrance != "" || err != nil {
			return hindrance, err
		}
	}
	_, possible, err := o.Ledger.Resolve(ctx, asked.ID, o.APIKey, ledger.Resolution{Generation: asked.Placed, By: byOf(ctx), Forced: asked.Force})
	switch {
	case errors.Is(err, ledger.ErrGenerationTaken):
		return "another order has placed " + asked.Placed, nil
	case errors.Is(err, ledger.ErrKeyTaken):
		return "its idempotency key has been used for another order since", nil
	case err != nil:
		return "", err
	case !possible:
		return o.isImpossible(ctx, asked.ID)
	}
	return "", nil
}

// isImpossible returns the reason why an operator can't set the outcome of an order.
func (o Orders) isImpossible(ctx context.Context, id string) (hindrance string, err error) {
	one, found, err := o.Ledger.Get(ctx, id)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "there is no order " + id + ": easel orders list shows them", nil
	case one.Generation != "":
		return "its outcome is known: it placed " + one.Generation, nil
	case one.State.String() == "refused":
		return "its outcome is known: the catalog rejected it", nil
	}
	return "it may still be sent again: wait until EASEL_RESEND_WINDOW after " + one.Time.Format(time.RFC3339) + " is over", nil
}
