package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Resolution is what an operator says of an order.
type Resolution struct {
	ID string `json:"id"`
	// Placed is the generation that the order has placed. Without one, Refused has to be set.
	Placed  string `json:"placed,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Force records a generation without asking the catalog for it.
	Force bool `json:"force,omitempty"`
}

// longestResolution is the most bytes that a resolution may have.
const longestResolution = 64 << 10

// resolve answers POST /orders:resolve.
func (o Orders) resolve(w http.ResponseWriter, r *http.Request) {
	var asked Resolution
	if err := decode(w, r, &asked); err != nil || asked.ID == "" || (asked.Placed == "") != asked.Refused {
		http.Error(w, `send {"id": ORDER, "placed": GENERATION} or {"id": ORDER, "refused": true}`, http.StatusBadRequest)
		return
	}
	hindrance, err := o.record(r.Context(), asked)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case hindrance != "":
		http.Error(w, hindrance, http.StatusConflict)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// record records what became of an order. hindrance says why it can't be; "" where it is recorded.
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

// isImpossible says why an operator can't say what became of an order.
func (o Orders) isImpossible(ctx context.Context, id string) (hindrance string, err error) {
	one, found, err := o.Ledger.Get(ctx, id)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "there is no order " + id + ": easel orders list has them", nil
	case one.Generation != "":
		return "its outcome is known: it has placed " + one.Generation, nil
	case one.State.String() == "refused":
		return "its outcome is known: the catalog has refused it", nil
	}
	return "it may still be sent again: wait until EASEL_RESEND_WINDOW after " + one.Time.Format(time.RFC3339) + " is over", nil
}
