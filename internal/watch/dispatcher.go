package watch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// handoff is how long a delivery may take before another goroutine takes over the rest of the queue, as
// Go's own scheduler hands a processor on whose thread blocks.
const handoff = 5 * time.Millisecond

// dispatcher lets ready watches deliver, one after the other. To wake ten thousand goroutines for one
// change costs about twice as much. A delivery that blocks holds up the others for as long as a
// handoff takes, and nothing need be known of what it blocks on.
type dispatcher struct {
	mu     sync.Mutex
	queue  []*delivery // that are ready
	over   []*delivery // that have ended, and are let go when the queue is empty
	worker *worker     // the goroutine that serves the queue; nil while there is none
}

// worker is one goroutine of a dispatcher. It is relieved when a delivery of it has blocked.
type worker struct {
	serves   *delivery    // now; guarded by the dispatcher's mutex
	progress atomic.Int64 // deliveries and turns that came back
	seen     int64        // progress at the last look
	timer    *time.Timer  // of the next look
}

// dispatchers are one for each processor.
type dispatchers struct {
	all  []*dispatcher
	next atomic.Uint32
}

func newDispatchers() *dispatchers {
	d := &dispatchers{}
	for range runtime.GOMAXPROCS(0) {
		d.all = append(d.all, &dispatcher{})
	}
	return d
}

// assign gives a watch its dispatcher.
func (d *dispatchers) assign() *dispatcher {
	return d.all[int(d.next.Add(1))%len(d.all)]
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
	w.timer = time.AfterFunc(handoff, func() { d.inspect(w) })
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
	switch {
	case d.worker != w:
		return nil
	case len(d.queue) == 0:
		w.timer.Stop()
		d.worker, d.queue = nil, nil
		d.dismiss()
		return nil
	}
	one := d.queue[0]
	d.queue[0] = nil
	d.queue = d.queue[1:]
	one.queued, w.serves = false, one
	return one
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
		w.seen = progress
		w.timer.Reset(handoff)
		return
	}
	d.worker = nil
	if w.serves != nil {
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
