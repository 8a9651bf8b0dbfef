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

// handoff is the interval between inspections of a worker. If a delivery has blocked the worker since the previous
// inspection, another worker continues with the queue. That worker is first inspected after half this time. If it is
// blocked too, the time is halved again, down to leastHandoff. So even many blocked deliveries delay the others only
// briefly. Go's scheduler does the same for goroutines when a thread blocks.
const (
	handoff      = 5 * time.Millisecond
	leastHandoff = handoff / 32
)

// dispatcher delivers the events of watches. A single goroutine, the worker, runs the deliveries one after another, because
// waking a goroutine for each watch would cost more. A timer regularly checks the worker's progress. If the worker makes
// no progress between two checks, another worker replaces it. So a blocked delivery delays the others for at most twice the
// time between two checks.
type dispatcher struct {
	mu         sync.Mutex
	queue      []*delivery   // ready deliveries
	ended      []*delivery   // ended deliveries, to be released when the queue is empty
	worker     *worker       // worker that currently runs the queue; nil if none does
	checkAfter time.Duration // time after which the next worker's progress is first checked; zero means the constant handoff
}

// worker is a goroutine of a dispatcher. Another worker replaces it when a delivery blocks it.
type worker struct {
	serving  *delivery    // current delivery; guarded by the dispatcher's mutex
	progress atomic.Int64 // number of events sent and turns completed; does not change while a delivery blocks the worker
	seen     int64        // value of worker.progress at the last check
	timer    *time.Timer  // fires at the next check of worker.progress
}

// enqueue adds a delivery to the queue, unless it is already queued or has ended. If a worker is running the delivery, the
// delivery is queued when the worker has finished with it. The caller must hold mu.
func (d *dispatcher) enqueue(one *delivery) {
	if one.running || one.queued || one.ended {
		one.requeue = one.running
		return
	}
	one.queued = true
	d.queue = append(d.queue, one)
	d.startWorker()
}

// startWorker starts a worker if none is running and the queue is not empty. The caller must hold mu.
func (d *dispatcher) startWorker() {
	if d.worker != nil || len(d.queue) == 0 {
		return
	}
	w := &worker{}
	d.worker = w
	w.timer = time.AfterFunc(cmp.Or(d.checkAfter, handoff), func() { d.inspectWorker(w) })
	go d.serveQueue(w)
}

// serveQueue runs deliveries until the queue is empty or another worker has replaced w.
func (d *dispatcher) serveQueue(w *worker) {
	for one := d.takeDelivery(w); one != nil; one = d.takeDelivery(w) {
		one.runTurn(w)
		w.progress.Add(1)
	}
}

// takeDelivery removes and returns the next delivery from the queue. It returns nil if the queue is empty or the worker was
// replaced.
func (d *dispatcher) takeDelivery(w *worker) *delivery {
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

// inspectWorker replaces the worker if it has made no progress since the last inspection. If a delivery blocks the worker,
// inspectWorker also limits the time for which the delivery may continue to block.
func (d *dispatcher) inspectWorker(w *worker) {
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
	if w.serving != nil && w.serving.running { // otherwise, the worker is between two turns, so no delivery blocks it
		w.serving.limitStall(w)
	}
	d.startWorker()
	d.releaseEnded()
}

// releaseEnded releases the ended deliveries if no worker is running. A release takes time, because it removes a watcher.
// Deliveries in the queue must not wait for releases, for example if many watchers receive the same final state. The caller
// must hold mu.
func (d *dispatcher) releaseEnded() {
	if d.worker != nil {
		return
	}
	for _, one := range d.ended {
		one.releaseCaller()
	}
	d.ended = nil
}

// maxEventsPerTurn is the maximum number of events that one watch delivers in one turn.
const maxEventsPerTurn = 64

// delivery delivers the events of one watch to its caller. It runs in turns, each on a worker of the dispatcher. The
// dispatcher's mutex guards timer and all fields below it.
type delivery struct {
	tracer     Tracer
	ctx        context.Context
	watcher    *watcher
	deliver    func(Event) error
	dispatcher *dispatcher
	done       chan struct{} // closed to make [delivery.awaitEnd] return

	timer      *time.Timer // enqueues the delivery for its next event, unless a change enqueues it earlier
	stallTimer *time.Timer // ends the watch if a delivery blocks for too long
	queued     bool
	running    bool // whether a turn of this delivery is running
	requeue    bool // whether the next turn must start as soon as the running turn has ended
	ended      bool // whether the watch has ended, so that no further event is delivered
	released   bool // whether the channel done is closed
	err        error
	panicValue any // value of a panic in deliver, with the stack trace; nil if there was no panic
}

// awaitEnd starts the delivery, and waits until the watch ends or the caller's context is done. When awaitEnd returns, no call
// to d.deliver is in progress, unless such a call has stalled.
func (d *delivery) awaitEnd() error {
	d.requestTurn()
	select {
	case <-d.done:
	case <-d.ctx.Done():
		d.cancelWatch(context.Cause(d.ctx))
		<-d.done
	}
	if d.panicValue != nil {
		panic(d.panicValue) // repeats the panic of d.deliver on the goroutine that called Watch
	}
	return d.err
}

// requestTurn enqueues the delivery.
func (d *delivery) requestTurn() {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.dispatcher.enqueue(d)
}

// runTurn delivers pending events of the watch, up to the limit of a turn. It stops earlier if the watch has ended, or if
// another worker has replaced w. The dispatcher does not notice if a delivery blocks a replaced worker, so such a worker must
// deliver no further events.
func (d *delivery) runTurn(w *worker) {
	defer d.recoverPanic()
	for range maxEventsPerTurn {
		s := d.watcher.nextStep(time.Now())
		switch {
		case s.event != nil:
		case s.err != nil || s.done:
			d.finishWatch(s.err)
			return
		default:
			d.endTurn(s.next)
			return
		}
		if err := d.deliverStep(s); err != nil {
			d.finishWatch(err)
			return
		}
		w.progress.Add(1)
		if d.mustYield(w) {
			break
		}
	}
	d.endTurn(time.Now())
}

// mustYield reports whether the worker w must stop delivering events, because the watch has ended or another worker has
// replaced w.
func (d *delivery) mustYield(w *worker) bool {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	return d.ended || d.dispatcher.worker != w
}

// deliverStep delivers the event of a step. It returns nil if d.deliver has skipped the event.
func (d *delivery) deliverStep(s step) error {
	delivered := d.tracer.Delivery(d.ctx, d.watcher.trace, *s.event, s.found)
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

// recoverPanic ends the watch after a panic in d.deliver.
func (d *delivery) recoverPanic() {
	if value := recover(); value != nil {
		d.dispatcher.mu.Lock()
		if !d.released {
			d.panicValue = fmt.Errorf("%v\n%s", value, debug.Stack())
		}
		d.dispatcher.mu.Unlock()
		d.finishWatch(nil)
	}
}

// endTurn ends the delivery's current turn on a worker, and schedules its next turn for the given time.
func (d *delivery) endTurn(next time.Time) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.running = false
	now := time.Now()
	switch {
	case d.ended:
		d.releaseCaller()
	case d.requeue || !next.After(now):
		d.dispatcher.enqueue(d)
	case d.timer == nil:
		d.timer = time.AfterFunc(next.Sub(now), d.requestTurn)
	default:
		d.timer.Reset(next.Sub(now))
	}
}

// finishWatch ends the watch and the delivery's current turn on a worker. It is called only during this turn.
func (d *delivery) finishWatch(err error) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.running = false
	if d.ended {
		d.releaseCaller()
		return
	}
	d.ended, d.err = true, err
	d.dispatcher.ended = append(d.dispatcher.ended, d)
	d.dispatcher.releaseEnded()
}

// cancelWatch ends the watch from another goroutine. If a worker is delivering events of the watch, [delivery.awaitEnd] blocks
// until the worker has finished with the watch.
func (d *delivery) cancelWatch(err error) {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	if !d.ended {
		d.ended, d.err = true, err
	}
	if !d.running {
		d.releaseCaller()
	}
}

// limitStall ends the watch if the delivery that blocks w takes longer than [Request.Stall]. It cannot abort the blocked call
// to d.deliver, which returns only when the caller's request ends. The caller of limitStall must hold the dispatcher's mutex.
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
			d.releaseCaller()
		}
	})
}

// releaseCaller unblocks [delivery.awaitEnd]. The caller must hold the dispatcher's mutex.
func (d *delivery) releaseCaller() {
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
