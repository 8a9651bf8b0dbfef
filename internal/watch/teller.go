package watch

import (
	"container/heap"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// teller tells watches, one after the other, on one goroutine. To wake ten thousand goroutines
// for a change costs more than what they say: 21 instead of 14 µs of CPU a watch, where each
// message has a span (the bench's push-cpu). A watch is told by a teller for as long as its Quick
// says that this can't hold up others; then it goes on on its own goroutine.
//
// To take it out, let Begin entrust no watch to a teller.
type teller struct {
	hub    *Hub
	queue  []*Watch      // guarded by the hub's mutex
	alarms alarms        // guarded by the hub's mutex; only the teller adds to them
	wake   chan struct{} // of capacity 1: there is something in the queue
}

// teller finds or starts the teller of a lane; mu is held.
func (h *Hub) teller(lane uint64) *teller {
	if h.tellers == nil {
		h.tellers = make([]*teller, runtime.GOMAXPROCS(0))
	}
	at := lane % uint64(len(h.tellers))
	if h.tellers[at] == nil {
		h.tellers[at] = &teller{hub: h, wake: make(chan struct{}, 1)}
		if !h.closed {
			h.work.Go(h.tellers[at].run)
		}
	}
	return h.tellers[at]
}

// endsAtOnce is how many watches a teller ends before it lets others do their work: what is told
// has to be written, too.
const endsAtOnce = 16

// run tells all that are in the queue, and then ends those that have nothing more to be told:
// the end of a render reaches everybody before they make work by leaving.
func (t *teller) run() {
	var over []*Watch
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		due, next := t.collect(time.Now())
		for _, w := range due {
			if w.take() {
				over = append(over, w)
			}
		}
		if len(over) > 0 {
			runtime.Gosched()
			over = end(over)
			continue
		}
		if len(due) > 0 {
			continue // they may have set an alarm
		}
		if !next.IsZero() {
			alarm.Reset(time.Until(next))
		}
		select {
		case <-t.wake:
		case <-alarm.C:
		case <-t.hub.ctx.Done():
			return
		}
	}
}

// end ends a few watches, and gives those that are left.
func end(over []*Watch) []*Watch {
	some := over[:min(len(over), endsAtOnce)]
	for _, w := range some {
		close(w.over)
	}
	clear(some)
	return over[len(some):]
}

// alarmsAtOnce is how many alarms are taken before others may have the hub's mutex: those of
// 100,000 watches that began together would keep it for 77 ms.
const alarmsAtOnce = 256

// collect empties the queue, with those whose time has come, and says when the next one's does.
func (t *teller) collect(now time.Time) (due []*Watch, next time.Time) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	for n := 0; n < alarmsAtOnce && len(t.alarms) > 0 && !now.Before(t.alarms[0].armed); n++ {
		w := heap.Pop(&t.alarms).(*Watch)
		w.armed = time.Time{}
		w.enqueue()
	}
	due = t.queue
	t.queue = nil
	for _, w := range due {
		w.queued = false
	}
	if len(t.alarms) > 0 {
		next = t.alarms[0].armed
	}
	return due, next
}

// entrust gives the watch to a teller.
func (w *Watch) entrust(lane uint64) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.teller = w.hub.teller(lane)
	w.enqueue()
}

// dismiss takes the watch from its teller.
func (w *Watch) dismiss() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.place != nowhere {
		heap.Remove(&w.teller.alarms, int(w.place))
	}
	w.teller = nil
}

// enqueue puts the watch into the queue; mu is held.
func (w *Watch) enqueue() {
	if w.queued {
		return
	}
	w.queued = true
	w.teller.queue = append(w.teller.queue, w)
	if len(w.teller.queue) > 1 {
		return // somebody has woken it
	}
	select {
	case w.teller.wake <- struct{}{}:
	default:
	}
}

// arm sees to it that the watch has a turn at next. An alarm that comes before is let be: most
// changes come before a heartbeat, and to move the alarm for each costs a tenth of telling it.
func (w *Watch) arm(next time.Time) {
	if !w.armed.IsZero() && !next.Before(w.armed) {
		return
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.armed = next
	if w.place == nowhere {
		heap.Push(&w.teller.alarms, w)
	} else {
		heap.Fix(&w.teller.alarms, int(w.place))
	}
}

// take takes a turn of the watch. It reports whether that was the last.
func (w *Watch) take() (last bool) {
	w.turns.Lock()
	defer w.turns.Unlock()
	if w.left {
		return false
	}
	defer func() {
		if value := recover(); value != nil { // it is the call's, not the teller's
			w.left, w.panicked, last = true, fmt.Errorf("%v\n%s", value, debug.Stack()), true
		}
	}()
	next, over := w.turn(w.ctx, w.yield, w.quick)
	switch {
	case over:
		w.left = true
	case next.IsZero():
		w.left, w.slow = true, true
	default:
		w.arm(next)
	}
	return w.left
}

// nowhere is the place of a watch that is not among the alarms.
const nowhere = -1

// alarms are watches by the time of their next turn, if no news comes before: a heap. A timer
// for each took 125 bytes more.
type alarms []*Watch

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].armed.Before(a[j].armed) }

func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = int32(i), int32(j) //nolint:gosec // there is memory for fewer watches
}

// Push implements heap.Interface.
func (a *alarms) Push(one any) {
	w := one.(*Watch)
	w.place = int32(len(*a)) //nolint:gosec // there is memory for fewer watches
	*a = append(*a, w)
}

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	w := (*a)[last]
	(*a)[last] = nil
	*a, w.place = (*a)[:last], nowhere
	return w
}
