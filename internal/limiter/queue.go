package limiter

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	meanOf   = 64 // number of requests in the moving average of the time in flight
	maxPrice = 64 // maximum price of a request; the price is the request's time in flight, divided by the mean time in flight

	keptOwners = 256 // owners without requests are deleted only if there are at least this many owners
)

// queue is a start-time fair queue. The next request belongs to the owner with the lowest tag. Each request raises its
// owner's tag by its price, divided by the owner's weight. The price is the request's time in flight, divided by the
// mean time in flight of all requests. As a result, an owner with slow requests has fewer requests in flight than an
// owner with quick requests.
type queue struct {
	owners  map[string]*owner
	waiting []*Permit     // requests of all owners that wait for a permit
	now     float64       // virtual time of the fair queue: the highest tag of a request that has started
	mean    time.Duration // moving average of the time in flight
}

// owner is an owner's state in the queue.
type owner struct {
	weight   float64
	tag      float64 // position of the owner's next request in the queue; the owner with the lowest tag is served first
	inFlight int
	waiting  int
}

// addRequest adds a request to the queue. An owner gains no priority from a time without waiting requests. A new owner is
// treated as if it had just started a request, so that new owners delay the existing owners only briefly.
func (q *queue) addRequest(w *Permit) {
	weight := cmp.Or(w.Weight, 1)
	o := q.owners[w.Owner]
	if o == nil {
		if len(q.owners) >= keptOwners {
			maps.DeleteFunc(q.owners, func(_ string, o *owner) bool { return o.waiting == 0 && o.inFlight == 0 })
		}
		o = &owner{tag: q.now + 1/weight}
		q.owners[w.Owner] = o
	}
	if o.waiting == 0 {
		o.tag = max(o.tag, q.now)
	}
	o.weight = weight
	o.waiting++
	w.owner = o
	q.waiting = append(q.waiting, w)
}

// nextRequest returns the first request, in the order defined by isBefore, for which mayStart returns true. It returns nil if
// there is no such request.
func (q *queue) nextRequest(mayStart func(*Permit) bool) (next *Permit) {
	for _, w := range q.waiting {
		if mayStart(w) && (next == nil || w.isBefore(next)) {
			next = w
		}
	}
	return next
}

// isBefore reports whether the request w starts before the request other. The request whose owner has the lower tag
// (see [queue]) starts first. Requests of the same owner are ordered by class, and then by arrival.
func (w *Permit) isBefore(other *Permit) bool {
	return cmp.Or(cmp.Compare(w.owner.tag, other.owner.tag), cmp.Compare(w.Class, other.Class), w.Arrived.Compare(other.Arrived)) < 0
}

// countBefore estimates how many waiting requests start earlier than the owner's newest request. All other
// waiting requests of the owner count. Requests of other owners count if they may start in the meantime, according to
// their owners' weights.
func (q *queue) countBefore(own *owner) (n float64) {
	round := float64(own.waiting) / own.weight
	for _, o := range q.owners {
		n += min(float64(o.waiting), round*o.weight)
	}
	return n - 1
}

// startRequest removes a request from the queue when it starts. It raises the owner's tag (see [queue]), as if the request took
// the mean time in flight. When the request ends, [queue.endRequest] corrects the tag.
func (q *queue) startRequest(w *Permit) {
	q.now = max(q.now, w.owner.tag)
	w.owner.tag += 1 / w.owner.weight
	w.owner.inFlight++
	q.decideRequest(w, nil)
}

// endRequest corrects the owner's tag (see [queue]) when a request ends, because the price of a request depends on its time
// in flight. If served is false, the price is zero.
func (q *queue) endRequest(o *owner, took time.Duration, served bool) {
	o.inFlight--
	if !served {
		o.tag -= 1 / o.weight
		return
	}
	q.mean += (took - cmp.Or(q.mean, took)) / meanOf
	q.mean = cmp.Or(q.mean, took)
	if q.mean > 0 {
		o.tag += (min(float64(took)/float64(q.mean), maxPrice) - 1) / o.weight
	}
}

// decideRequest removes a request from the queue and wakes the goroutine that waits for its permit. If err is nil, the permit
// is granted. Otherwise, the request is rejected with err.
func (q *queue) decideRequest(w *Permit, err error) {
	at := slices.Index(q.waiting, w)
	q.waiting = slices.Delete(q.waiting, at, at+1)
	w.owner.waiting--
	if w.err = err; w.decided != nil {
		close(w.decided)
	}
}
