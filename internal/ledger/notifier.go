package ledger

import "sync"

// Notifier wakes those who wait for something to happen to a key. Two notifications before somebody looks wake once.
type Notifier[K comparable] struct {
	mu  sync.Mutex
	all map[K]map[chan struct{}]bool
}

// Subscribe gives the notifications of a key from now on, until stop.
func (n *Notifier[K]) Subscribe(key K) (notified <-chan struct{}, stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wake := make(chan struct{}, 1)
	if n.all == nil {
		n.all = map[K]map[chan struct{}]bool{}
	}
	if n.all[key] == nil {
		n.all[key] = map[chan struct{}]bool{}
	}
	n.all[key][wake] = true
	return wake, func() { n.forget(key, wake) }
}

func (n *Notifier[K]) forget(key K, wake chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all[key], wake)
	if len(n.all[key]) == 0 {
		delete(n.all, key)
	}
}

// Notify notifies those who have subscribed to a key.
func (n *Notifier[K]) Notify(key K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for wake := range n.all[key] {
		ring(wake)
	}
}
