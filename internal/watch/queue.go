package watch

import (
	"container/heap"
	"slices"
	"time"
)

// queue orders the generations by the time of their next poll. It wakes the poller if a poll becomes due before planAt,
// the time when the poller next decides which generations to poll.
type queue struct {
	heap byDue

	wake    chan struct{} // wakes the poller; capacity 1
	planAt  time.Time     // time when the poller next decides which generations to poll
	blocked bool          // if true, no request may start before planAt
}

func newQueue(now time.Time) queue { return queue{wake: make(chan struct{}, 1), planAt: now} }

// wakeBy ensures that the poller decides at the time t or earlier which generations to poll next. It does nothing if the field
// blocked is set, because no request may then start before planAt.
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

// putGeneration adds a generation, or repositions it after its due time has changed.
func (q *queue) putGeneration(e *generation) {
	if e.polling.queueIndex >= 0 {
		heap.Fix(&q.heap, int(e.polling.queueIndex))
	} else {
		heap.Push(&q.heap, e)
	}
}

func (q *queue) removeGeneration(e *generation) {
	if e.polling.queueIndex >= 0 {
		heap.Remove(&q.heap, int(e.polling.queueIndex))
	}
}

// selectDue calls isReady for each due generation. It returns the generations for which isReady returns true, and leaves them
// in the queue. It removes the other due generations from the queue. nextDue is the earliest time at which a generation that is
// not due yet becomes due, or zero if all are due.
func (q *queue) selectDue(now time.Time, isReady func(*generation) bool) (ready []*generation, nextDue time.Time) {
	for indexes := []int{0}; len(indexes) > 0; {
		at := indexes[len(indexes)-1]
		indexes = indexes[:len(indexes)-1]
		if at >= len(q.heap) {
			continue
		}
		e := q.heap[at]
		if e.polling.due.After(now) { // skips the generation's descendants in the heap, because none of them is due earlier
			nextDue = earliest(nextDue, e.polling.due)
			continue
		}
		ready = append(ready, e)
		indexes = append(indexes, 2*at+2, 2*at+1)
	}
	ready = slices.DeleteFunc(ready, func(e *generation) bool {
		kept := isReady(e)
		if !kept {
			q.removeGeneration(e)
		}
		return !kept
	})
	return ready, nextDue
}

// byDue is a heap of generations, ordered by the time of their next poll.
type byDue []*generation

func (h byDue) Len() int { return len(h) }

func (h byDue) Less(i, j int) bool {
	if a, b := h[i].polling.due, h[j].polling.due; !a.Equal(b) {
		return a.Before(b)
	}
	return h[i].id < h[j].id // makes runs reproducible
}

func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].polling.queueIndex, h[j].polling.queueIndex = int32(i), int32(j)
}

// Push implements heap.Interface.
func (h *byDue) Push(one any) {
	e := one.(*generation)
	e.polling.queueIndex = int32(len(*h))
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
