// Package orders is how an order gets from the ledger to the catalog and back: it is written down and
// placed, sent again where its outcome is unknown, observed, and settled.
package orders

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// ledgerTimeout bounds each question to the ledger.
const ledgerTimeout = 5 * time.Second

// Config has the dependencies of [Orders].
type Config struct {
	*Recorder                 // required: it has the ledger
	Catalog   *catalog.Client // required
	Hub       *watch.Hub      // required: it records what it sees with the same recorder
	// Ordered is called at the end of each series of attempts to send an order, whoever still waits for it. ctx has the
	// values of the call that began the series; g is the paid generation where err is nil. It may be nil.
	Ordered func(ctx context.Context, cred catalog.Credential, modelID string, g catalog.Generation, err error)
	// KeyFirst means that the catalog looks at the idempotency key before all else: its refusal of an order that may
	// exist says that it does not.
	KeyFirst bool
}

// Orders takes orders through the ledger to the catalog.
type Orders struct {
	Config

	placed  *recent[placedKey, placedOrder]
	owned   *recent[ownedKey, attributed]
	avoided *recent[string, time.Time]
	reports *turns

	work     sync.WaitGroup
	stopping context.Context //nolint:containedctx // ends when no further attempt may begin
	stop     context.CancelFunc

	mu          sync.Mutex
	submissions map[string]*submission // by the id of the order
	owners      map[string]int         // how many there are of each
}

// New makes Orders. It asks nobody.
func New(cfg Config) *Orders {
	stopping, stop := context.WithCancel(context.Background())
	return &Orders{
		Config: cfg, placed: newRecent[placedKey, placedOrder](maxPlaced), owned: newRecent[ownedKey, attributed](maxOwned),
		avoided: newRecent[string, time.Time](maxOwned), reports: newTurns(mostReports),
		stopping: stopping, stop: stop, submissions: map[string]*submission{}, owners: map[string]int{},
	}
}

// Close waits for the orders on their way. When ctx ends before, no further attempt begins.
func (o *Orders) Close(ctx context.Context) error {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		o.work.Wait()
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		o.stop()
		return fmt.Errorf("orders are still on their way: %w", ctx.Err())
	}
}

// Outcome is what is known of an order that a call has not got placed.
type Outcome string

// The outcomes.
const (
	// Unknown is an order that may exist: the same idempotency key, sent again, finds out. A refusal by the catalog is
	// one too where another process may have sent the idempotency key: some catalogs check money, models or inputs
	// before they look it up.
	Unknown Outcome = "unknown"
	// NotPlacedByThisCall is an order of which this call has sent nothing. An earlier process may have, or another replica.
	NotPlacedByThisCall Outcome = "not_placed_by_this_call"
	// NotPlaced is an order that there is not, as a durable ledger knows. It is never said where callers forward their
	// own API keys, which may be used elsewhere.
	NotPlaced Outcome = "not_placed"
)

// Error is an error of [Orders.Place]: why the order was not placed, and what is known of it.
type Error struct {
	Outcome Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrModelNotAllowed means that the owner may not order from the model.
	ErrModelNotAllowed = errors.New("the team may not order from this model")
	// ErrResendWindow is the reason why an order of unknown outcome is not sent again. The account alone shows whether the
	// order was placed.
	ErrResendWindow = errors.New("its first attempt is too long ago to send it again: the catalog may have forgotten its idempotency key")

	errRotated = errors.New("it was sent under another API key, and only under that it can be sent again")
	// errTermsChanged means that the terms of the caller have changed while its order was quoted.
	errTermsChanged = errors.New("the terms of the caller have changed")
)

// Owner is whom the orders of a credential belong to in the ledger: the owner behind a held API key, else the
// API key itself.
func Owner(cred catalog.Credential) string {
	if cred.Held {
		return cred.Owner
	}
	return cred.APIKeySum()
}

// knowsAll reports whether the ledger knows of every order of an owner.
func (o *Orders) knowsAll(cred catalog.Credential) bool { return cred.Held && o.Ledger.IsDurable() }

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
	return err
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

// inDoubt turns a commit that may have been carried out into an unknown outcome. Any other error of the ledger stays:
// nothing was recorded.
func inDoubt(err error) error {
	if _, doubt := errors.AsType[*ledger.Doubt](err); doubt {
		return unknown(err)
	}
	return err
}

// placedTime is when an order was written down, by the clock of this process.
func placedTime(order ledger.Order) time.Time { return time.Now().Add(-order.Age) }

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
