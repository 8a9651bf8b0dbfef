package orders

import (
	"context"
	"sync"
)

// mostReports is how many reports the ledger makes at a time.
const mostReports = 2

// turns lets one of each name in at a time, and no more than there are seats in all. Others wait.
type turns struct {
	seats chan struct{}

	mu   sync.Mutex
	busy map[string]chan struct{} // closed when who is in leaves
}

func newTurns(seats int) *turns {
	return &turns{seats: make(chan struct{}, seats), busy: map[string]chan struct{}{}}
}

// enter waits until it is the turn of a name, which ends when leave is called.
func (t *turns) enter(ctx context.Context, name string) (leave func(), err error) {
	for {
		other := t.claim(name)
		if other == nil {
			break
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case t.seats <- struct{}{}:
		return func() { <-t.seats; t.yield(name) }, nil
	case <-ctx.Done():
		t.yield(name)
		return nil, ctx.Err()
	}
}

// claim takes the turn of a name, unless another has it.
func (t *turns) claim(name string) (other <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if busy, taken := t.busy[name]; taken {
		return busy
	}
	t.busy[name] = make(chan struct{})
	return nil
}

func (t *turns) yield(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.busy[name])
	delete(t.busy, name)
}
