package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// handoff is how long a delivery may take before another worker takes over the queue, as Go's own scheduler
// hands a processor on whose thread blocks. Where one delivery after the other blocks, each may take half as
// long as the one before, down to leastHandoff: many stuck readers together hold up the others only briefly.
const (
	handoff      = 5 * time.Millisecond
	leastHandoff = handoff / 32
)

// dispatcher lets ready watches deliver, one after the other: to wake a goroutine for each watcher costs
// more. A delivery that blocks holds up the others for one handoff at most. The dispatcher need not know
// what the delivery blocks on.
type dispatcher struct {
	mu         sync.Mutex
	queue      []*delivery   // ready deliveries
	ended      []*delivery   // deliveries that have ended; they are released when the queue is empty
	worker     *worker       // the goroutine that serves the queue; nil while there is none
	checkAfter time.Duration // until the next worker is inspected; 0: a handoff
}

// worker is one goroutine of a dispatcher. Another one relieves it when a delivery blocks it.
type worker struct {
	serving  *delivery    // now; guarded by the dispatcher's mutex
	progress atomic.Int64 // deliveries and turns that came back
	seen     int64        // progress at the last inspection
	timer    *time.Timer  // of the next inspection
}

// enqueue puts a delivery into the queue; mu is held. A running one is queued again after its turn.
func (d *dispatcher) enqueue(one *delivery) {
	if one.running || one.queued || one.ended {
		one.requeue = one.running
		return
	}
	one.queued = true
	d.queue = append(d.queue, one)
	d.startWorker()
}

// startWorker starts a worker where none serves the queue; mu is held.
func (d *dispatcher) startWorker() {
	if d.worker != nil || len(d.queue) == 0 {
		return
	}
	w := &worker{}
	d.worker = w
	w.timer = time.AfterFunc(cmp.Or(d.checkAfter, handoff), func() { d.inspect(w) })
	go d.serve(w)
}

// serve gives turns until the queue is empty or the worker is relieved.
func (d *dispatcher) serve(w *worker) {
	for one := d.take(w); one != nil; one = d.take(w) {
		one.run(w)
		w.progress.Add(1)
	}
}

// take gives the next delivery of the queue; nil where the worker is not needed any more.
func (d *dispatcher) take(w *worker) *delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.worker != w {
		return nil
	}
	for len(d.queue) > 0 {
		one := d.queue[0]
		d.queue[0] = nil
		d.queue = d.queue[1:]
		if one.queued = false; !one.ended {
			one.running, one.requeue, w.serving = true, false, one
			return one
		}
	}
	w.timer.Stop()
	d.worker, d.queue, d.checkAfter = nil, nil, 0
	d.releaseEnded()
	return nil
}

// inspect relieves a worker that has been with one delivery since the last inspection, and limits how long
// that delivery may take.
func (d *dispatcher) inspect(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.worker != w {
		return
	}
	if progress := w.progress.Load(); progress != w.seen {
		w.seen, d.checkAfter = progress, 0
		w.timer.Reset(handoff)
		return
	}
	d.worker, d.checkAfter = nil, max(cmp.Or(d.checkAfter, handoff)/2, leastHandoff)
	if w.serving != nil && w.serving.running { // else it was between two turns
		w.serving.limitStall(w)
	}
	d.startWorker()
	d.releaseEnded()
}

// releaseEnded releases the ended deliveries once the queue is empty: the end of a generation reaches
// all watchers before the first of them makes work by leaving. mu is held.
func (d *dispatcher) releaseEnded() {
	if d.worker != nil {
		return
	}
	for _, one := range d.ended {
		one.release()
	}
	d.ended = nil
}

// maxEventsPerTurn is how many events a watch delivers before the next watch has its turn.
const maxEventsPerTurn = 64

// delivery brings the events of one watch to its caller. The dispatcher's mutex guards the fields below
// done.
type delivery struct {
	observer   Observer
	ctx        context.Context
	watcher    *watcher
	deliver    func(Event) error
	dispatcher *dispatcher
	done       chan struct{} // closed when the watch is over

	timer      *time.Timer // of the next turn, where nothing changes before
	stallTimer *time.Timer // of the end of a delivery that has blocked
	queued     bool
	running    bool // it has its turn
	requeue    bool // it became ready in its turn
	ended      bool // nothing is delivered any more
	released   bool // done is closed
	err        error
	panicValue any // a panic of deliver
}

// wait waits until the watch ends, or its caller leaves. After it nothing is delivered, except by a
// delivery that has stalled.
func (d *delivery) wait() error {
	d.ready()
	select {
	case <-d.done:
	case <-d.ctx.Done():
		d.cancel(context.Cause(d.ctx))
		<-d.done
	}
	if d.panicValue != nil {
		panic(d.panicValue) // on the goroutine of the call that it belongs to
	}
	return d.err
}

// ready asks for a turn.
func (d *delivery) ready() {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.dispatcher.enqueue(d)
}

// run delivers the waiting events. It stops where the watch has ended, or another worker has taken over:
// nobody would see that this worker blocks.
func (d *delivery) run(w *worker) {
	defer d.recover()
	for range maxEventsPerTurn {
		s := d.watcher.next(time.Now())
		switch {
		case s.event != nil:
		case s.err != nil || s.done:
			d.finish(s.err)
			return
		default:
			d.park(s.next)
			return
		}
		if err := d.send(s); err != nil {
			d.finish(err)
			return
		}
		w.progress.Add(1)
		if d.relieved(w) {
			break
		}
	}
	d.park(time.Now())
}

// relieved reports whether the worker must stop to deliver.
func (d *delivery) relieved(w *worker) bool {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	return d.ended || d.dispatcher.worker != w
}

// send calls deliver with an event.
func (d *delivery) send(s step) error {
	delivered := d.observer.Delivery(d.ctx, d.watcher.trace, *s.event, s.found)
	err := d.deliver(*s.event)
	if delivered != nil {
		delivered()
	}
	if errors.Is(err, ErrSkipped) {
		return nil
	}
	d.watcher.heartbeatAt = time.Now().Add(d.watcher.heartbeat)
	return err
}

// recover ends the watch after a panic of deliver.
func (d *delivery) recover() {
	if value := recover(); value != nil {
		d.dispatcher.mu.Lock()
		if !d.released {
			d.panicValue = fmt.Errorf("%v\n%s", value, debug.Stack())
		}
		d.dispatcher.mu.Unlock()
		d.finish(nil)
	}
}

// park ends a turn, and asks for the next one at the given time.
func (d *delivery) park(next time.Time) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.running = false
	now := time.Now()
	switch {
	case d.ended:
		d.release()
	case d.requeue || !next.After(now):
		d.dispatcher.enqueue(d)
	case d.timer == nil:
		d.timer = time.AfterFunc(next.Sub(now), d.ready)
	default:
		d.timer.Reset(next.Sub(now))
	}
}

// finish ends the watch in its turn.
func (d *delivery) finish(err error) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.running = false
	if d.ended {
		d.release()
		return
	}
	d.ended, d.err = true, err
	d.dispatcher.ended = append(d.dispatcher.ended, d)
	d.dispatcher.releaseEnded()
}

// cancel ends the watch from outside. A running turn is waited for.
func (d *delivery) cancel(err error) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	if !d.ended {
		d.ended, d.err = true, err
	}
	if !d.running {
		d.release()
	}
}

// limitStall ends the watch where a blocked delivery takes longer than it may; the dispatcher's mutex is
// held. The delivery itself ends with the call.
func (d *delivery) limitStall(w *worker) {
	progress := w.progress.Load()
	if d.stallTimer != nil {
		d.stallTimer.Stop()
	}
	d.stallTimer = time.AfterFunc(d.watcher.stall-handoff, func() {
		d.dispatcher.mu.Lock()
		defer d.dispatcher.mu.Unlock()
		if w.progress.Load() == progress && !d.released {
			d.ended, d.err = true, ErrStalled
			d.release()
		}
	})
}

// release lets the goroutine of the watch return; the dispatcher's mutex is held.
func (d *delivery) release() {
	if d.released {
		return
	}
	d.released = true
	for _, timer := range []*time.Timer{d.timer, d.stallTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	close(d.done)
}
