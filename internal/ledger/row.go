package ledger

import (
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Request is an order as its caller sends it.
type Request struct {
	// Namespace is the scope of the idempotency key: the owner behind a shared API key, otherwise the forwarded API key.
	Namespace string
	// Owner is the owner of the order, and Caller its sender.
	Owner, Caller string
	// IdempotencyKey is the caller's name for the order, and UpstreamKey the key for the catalog.
	IdempotencyKey, UpstreamKey string
	// APIKey is the SHA-256, in hex, of the API key that sends the order.
	APIKey  string
	ModelID string
	// Inputs are the bytes for the catalog. Empty inputs are not stored.
	Inputs string
	// Digest is the SHA-256, in hex, of the model and the values of the inputs.
	Digest string
	// InputsDigest is the SHA-256, in hex, of the bytes for the catalog.
	InputsDigest string
	// Labels are shown to people and in reports.
	Labels map[string]string
	// PriceCents is the price that is reserved until the catalog reports the charge.
	PriceCents int64
	// Limits are the budgets that must have room for the price.
	Limits Limits
	// Total is the spending limit of all owners together.
	Total Limits
	// Agreed is called last in the transaction that writes the order. It checks whether the caller, the model and the
	// limits are unchanged. An error aborts the transaction. It may be nil.
	Agreed func() error
}

// Order is an order of the ledger.
type Order struct {
	lifecycle.Order

	// ID is the ledger's own id of the order. Recovery and operators use it.
	ID string
	// Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs and the digests are copied from its
	// [Request].
	Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs, Digest, InputsDigest string
	// Time is the time when the order was written, and Age the time since then. Both are by the database's clock.
	Time time.Time
	Age  time.Duration
	// Money has the amounts that the ledger counts for the order.
	lifecycle.Money
	// Observed is the observed state of its generation, and Record the catalog's report of the latest state, as JSON.
	lifecycle.Observed
	Record string
	// Labels are the labels of its [Request].
	Labels map[string]string

	// Problem is the reason why the order has no outcome yet, for display.
	Problem string

	// Erased means that its labels and its record were erased, and are not written again.
	Erased bool

	placed int64 // time when its generation was recorded in microseconds; zero without one
}

// money returns the amounts that follow from the recorded state of an order.
func (o Order) money() lifecycle.Money {
	switch {
	case o.State == lifecycle.Placed:
		return o.Observed.Money()
	case o.State == lifecycle.Refused:
		return lifecycle.Money{}
	case o.Expired: // its outcome stays unknown
		return lifecycle.Money{UnconfirmedCents: o.PriceCents}
	}
	return lifecycle.Money{ReservedCents: o.PriceCents}
}

// isForwarded reports whether an order was sent under a forwarded API key.
func (o Order) isForwarded() bool { return o.Namespace == o.APIKey }
