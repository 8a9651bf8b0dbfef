package orders

import "sync"

// Viewer is whose orders somebody sees: an owner's, or everybody's.
type Viewer struct {
	Owner     string
	Everybody bool
}

// Bells wake those who wait for something to happen to a key. A bell that rings twice before somebody looks wakes once.
type Bells[K comparable] struct {
	mu  sync.Mutex
	all map[K]map[chan struct{}]bool
}

// Listen hears the bell of a key from now on, until stop.
func (b *Bells[K]) Listen(key K) (rings <-chan struct{}, stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	heard := make(chan struct{}, 1)
	if b.all == nil {
		b.all = map[K]map[chan struct{}]bool{}
	}
	if b.all[key] == nil {
		b.all[key] = map[chan struct{}]bool{}
	}
	b.all[key][heard] = true
	return heard, func() { b.forget(key, heard) }
}

func (b *Bells[K]) forget(key K, heard chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all[key], heard)
	if len(b.all[key]) == 0 {
		delete(b.all, key)
	}
}

// Ring rings the bell of a key.
func (b *Bells[K]) Ring(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for heard := range b.all[key] {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}
