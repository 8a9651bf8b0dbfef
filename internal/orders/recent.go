package orders

import (
	"sync"
)

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
