package orders

import (
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// maxRecent is the maximum number of generations in memory of which something is kept.
const maxRecent = 100_000

// recent keeps so many values in memory. Where there are too many, any other is forgotten.
type recent[K comparable, V any] struct {
	most int

	mu  sync.RWMutex
	all map[K]V
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{most: most, all: map[K]V{}}
}

func (r *recent[K, V]) get(key K) (value V, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	value, ok = r.all[key]
	return value, ok
}

func (r *recent[K, V]) put(key K, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.all {
		if len(r.all) < r.most {
			break
		}
		delete(r.all, other)
	}
	r.all[key] = value
}

func (r *recent[K, V]) forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
}

// maxPlaced is how many placed orders are known in memory, for when the ledger is away.
const maxPlaced = 10_000

type placedKey struct{ namespace, idempotencyKey, digest string }

// placedOrder is what a repeat of an order is answered with.
type placedOrder struct {
	generationID string
	placed       time.Time
}

// remember keeps that an order was placed.
func (o *Orders) remember(order ledger.Order, generationID string, placed time.Time) {
	o.placed.put(placedKey{order.Namespace, order.IdempotencyKey, order.Digest}, placedOrder{generationID, placed})
}

// remembered answers a repeat of an order while the ledger is away.
func (o *Orders) remembered(r ledger.Request) (Receipt, bool) {
	p, ok := o.placed.get(placedKey{r.Namespace, r.IdempotencyKey, r.Digest})
	return Receipt{catalog.Generation{ID: p.generationID, ModelID: r.ModelID, State: catalog.StateQueued, ObserveTime: p.placed}, p.placed, true}, ok
}
