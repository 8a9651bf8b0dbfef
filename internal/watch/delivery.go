package watch

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// inTurn is how many events a watch delivers before others have their turn.
const inTurn = 64

// delivery is how the events of one watch reach its caller. The dispatcher's mutex guards what is not
// set at the beginning.
type delivery struct {
	ctx        context.Context
	watcher    *watcher
	deliver    func(Event) error
	dispatcher *dispatcher
	done       chan struct{} // closed when the watch is over

	alarm  *time.Timer // of the next turn, though nothing changes
	armed  time.Time   // when that is; zero: it is not set
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

// turn delivers what there is to deliver.
func (d *delivery) turn(w *worker) {
	if !d.begin() {
		return
	}
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
		if d.over() {
			break
		}
	}
	d.rest(time.Now())
}

// begin begins a turn, unless the watch is over.
func (d *delivery) begin() bool {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.turns, d.again = !d.ended, false
	return d.turns
}

func (d *delivery) over() bool {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	return d.ended
}

// hand gives an event to the caller.
func (d *delivery) hand(s step) error {
	delivered := d.watcher.tenant.hub.delivery(d.ctx, d.watcher.trace, s)
	err := d.deliver(*s.event)
	delivered()
	d.watcher.quiet = time.Now().Add(d.watcher.heartbeat)
	return err
}

// recover makes a panic of the caller's deliver the end of its watch.
func (d *delivery) recover() {
	if value := recover(); value != nil {
		d.raised = fmt.Errorf("%v\n%s", value, debug.Stack())
		d.finish(nil)
	}
}

// rest ends a turn, and asks for the next one at a time. An alarm that comes before is let be: most
// changes come before a heartbeat.
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
	case d.armed.IsZero() || next.Before(d.armed):
		d.armed = next
		if d.alarm == nil {
			d.alarm = time.AfterFunc(next.Sub(now), d.ring)
		} else {
			d.alarm.Reset(next.Sub(now))
		}
	}
}

// ring is what the alarm does.
func (d *delivery) ring() {
	d.dispatcher.mu.Lock()
	defer d.dispatcher.mu.Unlock()
	d.armed = time.Time{}
	d.dispatcher.put(d)
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
	time.AfterFunc(d.watcher.stall-handoff, func() {
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
	if d.alarm != nil {
		d.alarm.Stop()
	}
	close(d.done)
}
