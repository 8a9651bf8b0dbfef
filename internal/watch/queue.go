package watch

import (
	"container/heap"
	"time"
)

// queue holds entries by the time of their next poll, and wakes the poller.
type queue struct {
	heap  byDue
	ready []*entry // due entries, the earliest first

	wake    chan struct{} // of capacity 1: plan again
	planAt  time.Time     // of the next plan
	blocked bool          // no request is allowed before planAt
}

func newQueue(now time.Time) queue { return queue{wake: make(chan struct{}, 1), planAt: now} }

// wakeBy has the poller plan at t at the latest, unless no request is allowed then.
func (q *queue) wakeBy(t time.Time) {
	if q.blocked || !t.Before(q.planAt) {
		return
	}
	q.planAt = t
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// put adds an entry, or moves it after its time has changed.
func (q *queue) put(e *entry) {
	if e.polling.queueIndex >= 0 {
		heap.Fix(&q.heap, int(e.polling.queueIndex))
	} else {
		heap.Push(&q.heap, e)
	}
}

// remove removes an entry.
func (q *queue) remove(e *entry) {
	if e.polling.queueIndex >= 0 {
		heap.Remove(&q.heap, int(e.polling.queueIndex))
	}
	e.polling.queueIndex = notQueued
}

// due gives the due entries for which keep is true, and removes the others.
func (q *queue) due(now time.Time, keep func(*entry) bool) []*entry {
	was := q.ready
	q.ready = was[:0]
	for _, e := range was {
		if e.polling.queueIndex == dequeued {
			q.keepReady(e, keep)
		}
	}
	clear(was[len(q.ready):])
	for len(q.heap) > 0 && !q.heap[0].polling.due.After(now) {
		e := heap.Pop(&q.heap).(*entry)
		e.polling.queueIndex = dequeued
		q.keepReady(e, keep)
	}
	return q.ready
}

// keepReady keeps a due entry among the ready ones, or removes it.
func (q *queue) keepReady(e *entry, keep func(*entry) bool) {
	if keep(e) {
		q.ready = append(q.ready, e)
	} else {
		e.polling.queueIndex = notQueued
	}
}

// next is when the next entry falls due; zero: there is none.
func (q *queue) next() time.Time {
	if len(q.heap) == 0 {
		return time.Time{}
	}
	return q.heap[0].polling.due
}

// byDue is a heap of entries.
type byDue []*entry

func (h byDue) Len() int { return len(h) }

func (h byDue) Less(i, j int) bool {
	if a, b := h[i].polling.due, h[j].polling.due; !a.Equal(b) {
		return a.Before(b)
	}
	return h[i].id < h[j].id // so that a run can be repeated
}

func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].polling.queueIndex, h[j].polling.queueIndex = int32(i), int32(j) //nolint:gosec // there is memory for fewer
}

// Push implements heap.Interface.
func (h *byDue) Push(one any) {
	e := one.(*entry)
	e.polling.queueIndex = int32(len(*h)) //nolint:gosec // there is memory for fewer
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *byDue) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h, e.polling.queueIndex = (*h)[:last], notQueued
	return e
}
