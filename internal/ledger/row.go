package ledger

import (
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Request is an order as its caller sends it.
type Request struct {
	// Namespace is the scope of the idempotency key. It is the owner if the order uses the shared API key, and otherwise the
	// SHA-256 of the forwarded API key.
	Namespace string
	// Owner is the owner of the order. Caller is the caller that sends it.
	Owner, Caller string
	// IdempotencyKey is the key that the caller sent. UpstreamKey is the key that the catalog receives.
	IdempotencyKey, UpstreamKey string
	// APIKey is the SHA-256, in hex, of the API key with which the order is sent.
	APIKey  string
	ModelID string
	// Inputs are the exact bytes to send to the catalog. Empty means that the ledger does not store them.
	Inputs string
	// Digest is the SHA-256, in hex, of the model and the input values.
	Digest string
	// InputsDigest is the SHA-256, in hex, of the exact input bytes.
	InputsDigest string
	// Labels are the order's labels, for display, reports and budgets.
	Labels map[string]string
	// ExpireTime is the time after which the order is not sent. Zero means no limit.
	ExpireTime time.Time
	// PriceCents is the price to reserve until the catalog reports the charge.
	PriceCents int64
	// Limits are the spending limits of the owner.
	Limits Limits
	// Total is the spending limit of all owners together.
	Total Limits
	// LabelLimits are the spending limits of the order's label values, keyed by the name of the label.
	LabelLimits map[string]Limits
	// Agreed checks whether the caller, the model and the limits are still the same, and returns an error if they have changed.
	// It is called at the end of the transaction that writes the order. An error aborts the transaction. Agreed may be nil.
	Agreed func() error
}

// Order is an order in the ledger.
type Order struct {
	lifecycle.Order

	// ID identifies the order in the ledger. The background recovery and operators use it.
	ID string
	// These fields are copied from the [Request].
	Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs, Digest, InputsDigest string
	// Time is the time when the order was written. Age is the time since then. Both are from the database's clock.
	Time time.Time
	Age  time.Duration
	// ExpireTime is the time, according to the database's clock, after which the order is no longer sent. Zero means no limit.
	ExpireTime time.Time
	// Money contains the order's amounts, which count toward its budgets.
	lifecycle.Money
	// Observed contains the latest observed state of the generation. The field Record contains the catalog's record of this
	// state, as JSON.
	lifecycle.Observed
	Record string
	// Labels are copied from the [Request].
	Labels map[string]string

	// Problem is the reason why the order has no outcome yet, for operators.
	Problem string

	// Erased means that the order's labels and its generation's record were erased. Later observations do not write them again.
	Erased bool

	placed int64 // time when the generation was recorded, in microseconds; zero if there is no generation
}

// budgets returns the limits of the budgets in which the price of a new order is reserved. The owner's own limits have an empty
// key. The limits of a label value are keyed by the result of [labelKey].
func (r Request) budgets() map[string]Limits {
	all := map[string]Limits{"": r.Limits}
	for name, limits := range r.LabelLimits {
		all[labelKey(name, r.Labels[name])] = limits
	}
	return all
}

// ExpiresIn returns the time until the order's expire time, counted from the moment when the order was read. hasExpireTime is
// false if the order has no expire time.
func (o Order) ExpiresIn() (left time.Duration, hasExpireTime bool) {
	return o.ExpireTime.Sub(o.Time.Add(o.Age)), !o.ExpireTime.IsZero()
}

// IsPastExpireTime reports whether the order's expire time had passed when the order was read.
func (o Order) IsPastExpireTime() bool {
	left, limited := o.ExpiresIn()
	return limited && left <= 0
}

// money computes the order's amounts from its recorded state.
func (o Order) money() lifecycle.Money {
	switch {
	case o.State == lifecycle.Placed:
		return o.Observed.Money()
	case o.State == lifecycle.Refused:
		return lifecycle.Money{}
	case o.Expired: // the outcome is unknown, and will stay unknown
		return lifecycle.Money{UnconfirmedCents: o.PriceCents}
	}
	return lifecycle.Money{ReservedCents: o.PriceCents}
}

// isForwarded reports whether the order was sent with a forwarded API key.
func (o Order) isForwarded() bool { return o.Namespace == o.APIKey }
