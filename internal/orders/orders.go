// Package orders places orders with the catalog and records them in the ledger. An order is written to the ledger before it is
// sent. Package orders also resends orders whose outcome is unknown, observes their generations, and settles their costs.
package orders

import (
	"context"
	"fmt"
	"sync"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// Config contains the dependencies of [Orders].
type Config struct {
	*Recorder                 // required; contains the ledger
	Catalog   *catalog.Client // required
	Hub       *watch.Hub      // required; must use this Config's Recorder
	// Ordered is called when the attempts to send an order have ended, even if no caller waits for the order any longer. ctx
	// contains the values from the context of the call that started the attempts. If err is nil, the order was placed, and g is
	// its generation. Ordered may be nil.
	Ordered func(ctx context.Context, cred catalog.Credential, modelID string, g catalog.Generation, err error)
	// KeyFirst means that the catalog checks the idempotency key before it validates the other parts of an order. If such a
	// catalog rejects a resent order because of another part, it has found no order with the key. Therefore, it has accepted
	// no earlier attempt.
	KeyFirst bool
	// Weight returns an owner's weight in the limiter. It is used when an order is resent in the background. If Weight is nil,
	// every owner has the weight 1.
	Weight func(owner string) float64
}

// Orders records orders in the ledger and sends them to the catalog. It is safe for concurrent use.
type Orders struct {
	Config

	placed chan struct{} // receives a value after this process has placed an order; capacity 1

	work     sync.WaitGroup
	stopping context.Context //nolint:containedctx // done when the process is stopping; no further attempt may start after that
	stop     context.CancelFunc

	mu          sync.Mutex
	submissions map[string]*submission // submissions of this process by order ID
}

// New creates an Orders. It sends no requests.
func New(cfg Config) *Orders {
	stopping, stop := context.WithCancel(context.Background())
	return &Orders{
		Config: cfg, placed: make(chan struct{}, 1),
		stopping: stopping, stop: stop, submissions: map[string]*submission{},
	}
}

// Close waits until no order is in flight. If ctx is done first, Close prevents further attempts and returns an error.
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
		return fmt.Errorf("orders still in flight: %w", ctx.Err())
	}
}
