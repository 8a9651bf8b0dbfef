package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Orders are the orders of the ledger, for operators.
type Orders struct {
	// List gives the newest orders: those of unknown outcome alone, or those that were placed.
	List func(ctx context.Context, unknown bool) ([]Order, error)
	// Resolve records what became of an order that stays unknown. From is the address that asks. hindrance says why it
	// can't be; "" where it is recorded.
	Resolve func(ctx context.Context, asked Resolution, from string) (hindrance string, err error)
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
	all, err := o.List(r.Context(), r.URL.Query().Get("unknown") == "true")
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	writeJSON(w, map[string][]Order{"orders": append([]Order{}, all...)})
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
	hindrance, err := o.Resolve(r.Context(), asked, r.RemoteAddr)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case hindrance != "":
		http.Error(w, hindrance, http.StatusConflict)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
