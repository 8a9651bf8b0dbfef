package watch

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// handoff is how long a delivery may take before another goroutine takes over the rest of the queue, as
// Go's own scheduler hands a processor on whose thread blocks. Where one after the other blocks, each
// may take half as long as the one before, down to leastHandoff: two hundred stuck readers together hold
// up the others for some 40 ms.
const (
	handoff      = 5 * time.Millisecond
	leastHandoff = handoff / 32
)

// dispatcher lets ready watches deliver, one after the other. To wake ten thousand goroutines for one
// change costs about twice as much. A delivery that blocks holds up the others for as long as a
// handoff takes, and nothing need be known of what it blocks on.
type dispatcher struct {
	mu     sync.Mutex
	queue  []*delivery   // that are ready
	over   []*delivery   // that have ended, and are let go when the queue is empty
	worker *worker       // the goroutine that serves the queue; nil while there is none
	look   time.Duration // until the next worker is looked at; 0: a handoff
}

// worker is one goroutine of a dispatcher. It is relieved when a delivery of it has blocked.
type worker struct {
	serves   *delivery    // now; guarded by the dispatcher's mutex
	progress atomic.Int64 // deliveries and turns that came back
	seen     int64        // progress at the last look
	timer    *time.Timer  // of the next look
}

// put makes a delivery ready; mu is held. One that has its turn is ready again after it.
func (d *dispatcher) put(one *delivery) {
	if one.turns || one.queued || one.ended {
		one.again = one.turns
		return
	}
	one.queued = true
	d.queue = append(d.queue, one)
	d.staff()
}

// staff sees to it that somebody serves the queue; mu is held.
func (d *dispatcher) staff() {
	if d.worker != nil || len(d.queue) == 0 {
		return
	}
	w := &worker{}
	d.worker = w
	w.timer = time.AfterFunc(cmp.Or(d.look, handoff), func() { d.inspect(w) })
	go d.serve(w)
}

// serve gives turns until the queue is empty or the worker is relieved.
func (d *dispatcher) serve(w *worker) {
	for one := d.take(w); one != nil; one = d.take(w) {
		one.turn(w)
		w.progress.Add(1)
	}
}

// take gives the next of the queue; nil where the worker is not needed any more.
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
			one.turns, one.again, w.serves = true, false, one
			return one
		}
	}
	w.timer.Stop()
	d.worker, d.queue, d.look = nil, nil, 0
	d.dismiss()
	return nil
}

// inspect relieves a worker that has been with one delivery since the last look, and limits how long
// that delivery may take.
func (d *dispatcher) inspect(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.worker != w {
		return
	}
	if progress := w.progress.Load(); progress != w.seen {
		w.seen, d.look = progress, 0
		w.timer.Reset(handoff)
		return
	}
	d.worker, d.look = nil, max(cmp.Or(d.look, handoff)/2, leastHandoff)
	if w.serves != nil && w.serves.turns { // else it was between two turns
		w.serves.limit(w)
	}
	d.staff()
	d.dismiss()
}

// dismiss lets those go that have ended, once the others are told: the end of a generation reaches
// everybody before they make work by leaving. mu is held.
func (d *dispatcher) dismiss() {
	if d.worker != nil {
		return
	}
	for _, one := range d.over {
		one.letGo()
	}
	d.over = nil
}

// inTurn is how many events a watch delivers before others have their turn.
const inTurn = 64

// delivery is how the events of one watch reach its caller. The dispatcher's mutex guards what is not
// set at the beginning.
type delivery struct {
	hub        *Hub
	ctx        context.Context
	watcher    *watcher
	deliver    func(Event) error
	dispatcher *dispatcher
	done       chan struct{} // closed when the watch is over

	alarm  *time.Timer // of the next turn, though nothing changes
	stall  *time.Timer // of the end of a delivery that has blocked
	queued bool
	turns  bool // it has its turn
	again  bool // it has become ready meanwhile
	ended  bool // nothing is delivered any more
	gone   bool // done is closed
	err    error
	raised any // a panic of deliver
}

// wait waits until the watch is over, or its caller leaves. Nothing is delivered when it has returned,
// except by a delivery that has stalled.
func (d *delivery) wait() error {
	d.ready()
	select {
	case <-d.done:
	case <-d.ctx.Done():
		d.end(context.Cause(d.ctx))
		<-d.done
	}
	if d.raised != nil {
		panic(d.raised) // on the goroutine of the call that it belongs to
	}
	return d.err
}

// ready asks for a turn.
func (d *delivery) ready() {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.dispatcher.put(d)
}

// turn delivers what there is to deliver. It leaves the rest to the next one where the watch has ended, or
// another worker has taken over: nobody would see that this one blocks.
func (d *delivery) turn(w *worker) {
	defer d.recover()
	for range inTurn {
		s := d.watcher.take(time.Now())
		switch {
		case s.event != nil:
		case s.err != nil || s.done:
			d.finish(s.err)
			return
		default:
			d.rest(s.next)
			return
		}
		if err := d.hand(s); err != nil {
			d.finish(err)
			return
		}
		w.progress.Add(1)
		if d.over(w) {
			break
		}
	}
	d.rest(time.Now())
}

func (d *delivery) over(w *worker) bool {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	return d.ended || d.dispatcher.worker != w
}

// hand gives an event to the caller.
func (d *delivery) hand(s step) error {
	delivered := d.hub.cfg.Observer.Delivery(d.ctx, d.watcher.trace, *s.event, s.found)
	err := d.deliver(*s.event)
	if delivered != nil {
		delivered()
	}
	d.watcher.quiet = time.Now().Add(d.watcher.heartbeat)
	return err
}

// recover makes a panic of the caller's deliver the end of its watch.
func (d *delivery) recover() {
	if value := recover(); value != nil {
		d.dispatcher.mu.Lock()
		if !d.gone {
			d.raised = fmt.Errorf("%v\n%s", value, debug.Stack())
		}
		d.dispatcher.mu.Unlock()
		d.finish(nil)
	}
}

// rest ends a turn, and asks for the next one at a time.
func (d *delivery) rest(next time.Time) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.turns = false
	now := time.Now()
	switch {
	case d.ended:
		d.letGo()
	case d.again || !next.After(now):
		d.dispatcher.put(d)
	case d.alarm == nil:
		d.alarm = time.AfterFunc(next.Sub(now), d.ready)
	default:
		d.alarm.Reset(next.Sub(now))
	}
}

// finish ends the watch in its turn. It is let go once the others are told.
func (d *delivery) finish(err error) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.turns = false
	if d.ended {
		d.letGo()
		return
	}
	d.ended, d.err = true, err
	d.dispatcher.over = append(d.dispatcher.over, d)
	d.dispatcher.dismiss()
}

// end ends the watch from outside. A turn that it has is waited for.
func (d *delivery) end(err error) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	if !d.ended {
		d.ended, d.err = true, err
	}
	if !d.turns {
		d.letGo()
	}
}

// limit ends the watch where a delivery that has blocked goes on for longer than it may; the
// dispatcher's mutex is held. The delivery itself ends when the caller has.
func (d *delivery) limit(w *worker) {
	progress := w.progress.Load()
	if d.stall != nil {
		d.stall.Stop()
	}
	d.stall = time.AfterFunc(d.watcher.stall-handoff, func() {
		d.dispatcher.mu.Lock()
		defer d.dispatcher.mu.Unlock()
		if w.progress.Load() == progress && !d.gone {
			d.ended, d.err = true, ErrStalled
			d.letGo()
		}
	})
}

// letGo lets the goroutine of the watch go on; the dispatcher's mutex is held.
func (d *delivery) letGo() {
	if d.gone {
		return
	}
	d.gone = true
	for _, timer := range []*time.Timer{d.alarm, d.stall} {
		if timer != nil {
			timer.Stop()
		}
	}
	close(d.done)
}
