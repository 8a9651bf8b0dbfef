// Package orders is how an order gets from the ledger to the catalog and back: it is written down and
// placed, sent again where its outcome is unknown, observed, and settled.
package orders

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// ledgerTimeout bounds each question to the ledger.
const ledgerTimeout = 5 * time.Second

// Config has the dependencies of [Orders].
type Config struct {
	Ledger  *ledger.Ledger  // required
	Catalog *catalog.Client // required
	// Logger hears of faults of the book. Required.
	Logger *slog.Logger
	// Fault counts a fault of the book, and Dearer a charge above the quote. They may be nil.
	Fault, Dearer func()
	// Share gives watchers a state that was read to settle an order, Gone tells them that there was none, and Called
	// counts the request. They may be nil.
	Share  func(context.Context, catalog.Credential, catalog.Version)
	Gone   func(ctx context.Context, cred catalog.Credential, generationID string)
	Called func(catalog.Credential, error)
	// Told are the owners who are told of events, and Watch watches a generation of theirs until no money can move any
	// more. They may be nil: nobody is told.
	Told  func() (owners []string)
	Watch func(ctx context.Context, cred catalog.Credential, generationID string) error
	// KeyFirst means that the catalog looks at the idempotency key before all else: its refusal of an order that may
	// exist says that it does not.
	KeyFirst bool
}

// Orders takes orders through the ledger to the catalog.
type Orders struct {
	Config

	placed   *recent[placedKey, placedOrder]
	owned    *recent[ownedKey, attributed]
	recorded *recent[sight, recordedState]
	avoided  *recent[string, time.Time]
	recorder *recorder
	reports  *turns
}

// New makes Orders. It asks nobody.
func New(cfg Config) *Orders {
	if cfg.Fault == nil {
		cfg.Fault = func() {}
	}
	if cfg.Dearer == nil {
		cfg.Dearer = func() {}
	}
	if cfg.Share == nil {
		cfg.Share = func(context.Context, catalog.Credential, catalog.Version) {}
	}
	if cfg.Gone == nil {
		cfg.Gone = func(context.Context, catalog.Credential, string) {}
	}
	if cfg.Called == nil {
		cfg.Called = func(catalog.Credential, error) {}
	}
	if cfg.Told == nil {
		cfg.Told = func() []string { return nil }
	}
	return &Orders{
		Config: cfg, placed: newRecent[placedKey, placedOrder](maxPlaced), owned: newRecent[ownedKey, attributed](maxOwned),
		recorded: newRecent[sight, recordedState](maxOwned), avoided: newRecent[string, time.Time](maxOwned), recorder: newRecorder(), reports: newTurns(mostReports),
	}
}

// Request is an order of a caller.
type Request struct {
	Caller         string // "" where the caller forwards its own API key
	ModelID        string
	Inputs         json.RawMessage
	IdempotencyKey string // the caller's
	UpstreamKey    string // what the catalog gets
	MaxCostCents   *int64
	Labels         map[string]string
	// Terms says under which terms the caller may order now, or that it may not any more. It is asked before the order is
	// quoted, and again in the transaction that writes it. It must not wait. Nil allows everything.
	Terms func() (Terms, error)
	// Hold is that of [catalog.Order].
	Hold func() (release func())
}

// Terms are what an owner may order.
type Terms struct {
	Limits  ledger.Limits
	Refused bool // the model
}

// equal reports whether two terms are the same.
func (t Terms) equal(other Terms) bool {
	same := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
	return t.Refused == other.Refused && same(t.Limits.DailyCents, other.Limits.DailyCents) && same(t.Limits.MonthlyCents, other.Limits.MonthlyCents)
}

// terms are those of now.
func (r Request) terms() (Terms, error) {
	if r.Terms == nil {
		return Terms{}, nil
	}
	return r.Terms()
}

// NotPlacedError is the error of an order that certainly does not exist: the ledger would know of it.
type NotPlacedError struct{ Err error }

func (e *NotPlacedError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *NotPlacedError) Unwrap() error { return e.Err }

// ErrModelNotAllowed means that the owner may not order from the model.
var ErrModelNotAllowed = errors.New("the team may not order from this model")

// Place places an order, or gives the generation that its idempotency key has placed before. Its promise is
// that of [catalog.Client.Create], on every replica and after every restart: nothing is sent that the ledger
// has not, and nothing is answered that it does not hold.
func (o *Orders) Place(ctx context.Context, cred catalog.Credential, r Request) (catalog.Receipt, error) {
	if err := o.Proven(ctx, cred); err != nil {
		return catalog.Receipt{}, err
	}
	digest, err := digestOf(r.ModelID, r.Inputs)
	if err != nil {
		return catalog.Receipt{}, err
	}
	e := &entry{orders: o, asked: r, request: o.ledgerRequest(cred, r, digest)}
	receipt, err := o.Catalog.Create(ctx, cred, e.catalogOrder(r.Hold, digest))
	if receipt.Replayed && err == nil {
		receipt.Generation = o.newest(ctx, cred, receipt)
	}
	return receipt, err
}

// catalogOrder is the order as the catalog's client takes it.
func (e *entry) catalogOrder(hold func() func(), digest [sha256.Size]byte) catalog.Order {
	return catalog.Order{ModelID: e.request.ModelID, Inputs: e.asked.Inputs, IdempotencyKey: e.request.UpstreamKey, Hold: hold, Journal: e, Digest: digest}
}

// Owner is whom the orders of a credential belong to in the ledger: the owner behind a held API key, else the
// API key itself.
func Owner(cred catalog.Credential) string {
	if cred.Held {
		return cred.Owner
	}
	return cred.APIKeySum()
}

// ledgerRequest is an order as the ledger has it. The bytes of a forwarded API key's order are not kept on disk: nobody
// but its caller could send them.
func (o *Orders) ledgerRequest(cred catalog.Credential, r Request, digest [sha256.Size]byte) ledger.Request {
	request := ledger.Request{
		Namespace: Owner(cred), Owner: Owner(cred), Caller: r.Caller, IdempotencyKey: r.IdempotencyKey, UpstreamKey: r.UpstreamKey,
		ModelID: r.ModelID, Digest: hex.EncodeToString(digest[:]), Labels: r.Labels,
	}
	if cred.Held || !o.Ledger.IsDurable() {
		request.Inputs = string(r.Inputs)
	}
	return request
}

// provenTime is how long the catalog's acceptance of a forwarded API key opens the ledger.
const provenTime = time.Minute

// Proven makes sure that the catalog has accepted the API key lately: a made-up one never reaches the ledger.
func (o *Orders) Proven(ctx context.Context, cred catalog.Credential) error {
	if o.IsProven(cred) {
		return nil
	}
	_, err := o.Catalog.Account(ctx, cred)
	if o.IsProven(cred) { // the answer may be unreadable
		return nil
	}
	return catalog.Unsent(err)
}

// IsProven reports whether the catalog has accepted the API key lately.
func (o *Orders) IsProven(cred catalog.Credential) bool {
	return cred.Held || o.Catalog.AcceptedWithin(cred.Tenant, provenTime)
}

// ask bounds a question to the ledger. One that takes too long has no answer.
func ask(ctx context.Context, question func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	err := question(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		var doubt *ledger.Doubt
		if !errors.As(err, &doubt) {
			return &ledger.Unavailable{Err: err}
		}
	}
	return err
}

// newest is the state of a generation that was placed before: what the catalog says, or what the ledger has. One read
// that does not find it says nothing.
func (o *Orders) newest(ctx context.Context, cred catalog.Credential, receipt catalog.Receipt) catalog.Generation {
	recorded := receipt.Generation
	if recorded.State == catalog.StateDeleted {
		return recorded
	}
	read, err := o.Catalog.Generation(ctx, cred, recorded.ID)
	if err == nil {
		return read.Generation
	}
	if catalog.IsAbsent(err) && time.Since(receipt.Placed) > NotYetVisible {
		if _, ok := o.NotFound(ctx, cred, nil, recorded.ID, err); !ok {
			recorded.State = catalog.StateDeleted
		}
	}
	return recorded
}

// NotYetVisible is how long after an order a 404 of the catalog is no deletion.
const NotYetVisible = 30 * time.Second

// digestOf is the digest of model and inputs by value: members in any order, numbers by their digits.
func digestOf(modelID string, inputs json.RawMessage) (digest [sha256.Size]byte, err error) {
	decoder := json.NewDecoder(strings.NewReader(string(inputs)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return digest, err // the contract's rules have refused it before
	}
	canonical, err := json.Marshal([]any{modelID, value})
	return sha256.Sum256(canonical), err
}
