// Package orders is how an order gets from the ledger to the catalog and back: it is written down and
// placed, sent again where its outcome is unknown, observed, and settled.
package orders

import (
	"context"
	"fmt"
	"sync"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

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
	// Weight returns the weight of an owner in the limiter, for orders that are resent without a call. Nil means that every
	// owner has the weight 1.
	Weight func(owner string) float64
}

// Orders takes orders through the ledger to the catalog.
type Orders struct {
	Config

	placed chan struct{} // has a value when this process has placed an order; capacity 1

	work     sync.WaitGroup
	stopping context.Context //nolint:containedctx // ends when no further attempt may begin
	stop     context.CancelFunc
	watching context.Context //nolint:containedctx // ends when the orders are closed
	unwatch  context.CancelFunc

	mu          sync.Mutex
	submissions map[string]*submission // by the id of the order
	followed    map[string]bool        // the key is the ID of a generation
}

// New makes Orders. It asks nobody.
func New(cfg Config) *Orders {
	stopping, stop := context.WithCancel(context.Background())
	watching, unwatch := context.WithCancel(stopping)
	return &Orders{
		Config: cfg, placed: make(chan struct{}, 1),
		stopping: stopping, stop: stop, watching: watching, unwatch: unwatch, submissions: map[string]*submission{}, followed: map[string]bool{},
	}
}

// Close waits for the orders on their way. When ctx ends before, no further attempt begins.
func (o *Orders) Close(ctx context.Context) error {
	o.mu.Lock()
	o.unwatch() // no further watch starts
	o.mu.Unlock()
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
