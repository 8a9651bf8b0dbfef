package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// listed is how many orders or events operators see.
const listed = 1000

// Orders are the orders of the ledger, for operators.
type Orders struct {
	Ledger *ledger.Ledger
	// APIKey is the SHA-256 of the held API key. Without one it is that of each order: only the end of its window says
	// that nobody sends it again.
	APIKey string
	// Differs says why the generation can't be that of the order; "" where it can.
	Differs func(ctx context.Context, asked Resolution) (hindrance string, err error)
	Logger  *slog.Logger
}

// Order is an order of the ledger.
type Order struct {
	ID             string    `json:"id"`
	OrderTime      time.Time `json:"order_time"`
	Owner          string    `json:"owner"`
	Caller         string    `json:"caller"`
	IdempotencyKey string    `json:"idempotency_key"`
	ModelID        string    `json:"model_id"`
	GenerationID   string    `json:"generation_id,omitempty"`
	State          string    `json:"state"`
	ReservedCents  int64     `json:"reserved_cents"`
	CostCents      *int64    `json:"cost_cents,omitempty"`
	Problem        string    `json:"problem,omitempty"` // why it has no outcome yet
}

func order(o ledger.Order) Order {
	state := o.State.String()
	switch {
	case o.IsGone():
		state = "deleted"
	case o.Generation != "":
		state = o.Status.String()
	}
	return Order{
		ID: o.ID, OrderTime: o.Time, Owner: o.Owner, Caller: o.Caller, IdempotencyKey: o.IdempotencyKey, ModelID: o.ModelID,
		GenerationID: o.Generation, State: state, ReservedCents: o.ReservedCents, CostCents: o.CostCents, Problem: o.Problem,
	}
}

// Resolution is what an operator says of an order.
type Resolution struct {
	ID string `json:"id"`
	// Placed is the generation that the order has placed. Without one, Refused has to be set.
	Placed  string `json:"placed,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Force records a generation without asking the catalog for it.
	Force bool `json:"force,omitempty"`
	// By is who says so, as it calls itself.
	By string `json:"by,omitempty"`
}

// list answers GET /orders, and with ?unknown=true those of unknown outcome alone.
func (o Orders) list(w http.ResponseWriter, r *http.Request) {
	found, err := o.Ledger.List(r.Context(), ledger.Filter{Unresolved: r.URL.Query().Get("unknown") == "true"}, ledger.Position{}, listed)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	all := []Order{}
	for _, one := range found {
		all = append(all, order(one))
	}
	writeJSON(w, map[string][]Order{"orders": all})
}

// longestResolution is the most bytes that a resolution may have.
const longestResolution = 64 << 10

// resolve answers POST /orders:resolve.
func (o Orders) resolve(w http.ResponseWriter, r *http.Request) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, longestResolution))
	decoder.DisallowUnknownFields()
	var asked Resolution
	if err := decoder.Decode(&asked); err != nil || asked.ID == "" || (asked.Placed == "") != asked.Refused {
		http.Error(w, `send {"id": ORDER, "placed": GENERATION} or {"id": ORDER, "refused": true}`, http.StatusBadRequest)
		return
	}
	hindrance, err := o.record(r.Context(), asked, r.RemoteAddr)
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
func (o Orders) record(ctx context.Context, asked Resolution, from string) (hindrance string, err error) {
	if asked.Placed != "" {
		if hindrance, err := o.Differs(ctx, asked); hindrance != "" || err != nil {
			return hindrance, err
		}
	}
	before, possible, err := o.Ledger.Resolve(ctx, asked.ID, o.APIKey, ledger.Resolution{Generation: asked.Placed, Actor: cmp.Or(asked.By, "an operator at "+from)})
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
	o.Logger.WarnContext(ctx, "an operator has said what became of an order", "order", asked.ID, "owner", before.Owner, "model", before.ModelID,
		"idempotency_key", before.IdempotencyKey, "before", order(before).State, "generation", asked.Placed, "refused", asked.Refused, "forced", asked.Force, "by", asked.By, "from", from)
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
