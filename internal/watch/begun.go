package watch

import (
	"context"
	"sync"
	"time"
)

// Watch is a watch that has begun. What Hub.Watch does at one go it does in three steps, so
// that the second, which is nearly all of its time, can have a small stack: that of a goroutine
// does not shrink from 8 to 4 KB once it has grown.
type Watch struct {
	subscription
	ctx   context.Context
	yield func(Event, error) bool
	quick func() bool // nil: it is told by nobody else

	over chan struct{} // closed when the teller has nothing more to tell

	// Guarded by the hub's mutex:
	teller *teller   // that tells it; nil: it runs by itself
	armed  time.Time // it is among the alarms until then; zero: it is not. Only the teller sets it
	place  int32     // in the alarms of the teller
	queued bool

	slow     bool       // the teller has left it alone
	left     bool       // it is told no more by the teller
	turns    sync.Mutex // held while it is told: who leaves waits
	panicked error
}

// Begin begins what Watch does, with yield in place of a loop: it is told the newest state, and
// each change from then on, from another goroutine, for as long as req.Quick says that this can
// wait for nobody. Wait has to be called next, and then End.
func (h *Hub) Begin(ctx context.Context, req Request, yield func(Event, error) bool) *Watch {
	w := &Watch{subscription: h.subscription(ctx, &req), ctx: ctx, yield: yield, quick: req.Quick, place: nowhere}
	w.watch = w
	w.subscribe(&req)
	if w.quick != nil {
		w.over = make(chan struct{})
		w.entrust(req.Lane)
	}
	return w
}

// Wait waits for as long as the watch is told from another goroutine, or until its context ends.
// It takes next to no stack.
func (w *Watch) Wait() {
	if w.over == nil {
		return
	}
	select {
	case <-w.over:
	case <-w.ctx.Done():
	}
}

// End tells what is left to be told until the watch is over, from the goroutine that calls it.
// A panic of yield is raised here, wherever it was.
func (w *Watch) End() {
	defer w.close()
	if w.quick == nil || w.retire() {
		w.run(w.ctx, w.yield)
	}
}

// retire takes the watch back from its teller, and reports whether it has to go on by itself.
func (w *Watch) retire() (slow bool) {
	w.turns.Lock()
	ended := w.left
	w.left = true
	w.turns.Unlock()
	w.dismiss()
	switch {
	case w.panicked != nil:
		panic(w.panicked)
	case !ended:
		w.yield(Event{}, context.Cause(w.ctx))
	}
	return w.slow
}
