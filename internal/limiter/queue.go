package limiter

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// keptOwners is the number of owners in a queue before those without a request are removed.
const keptOwners = 256

const (
	meanOf   = 64 // number of requests in the moving average of the time in flight
	maxPrice = 64 // maximum price of a request, in requests of the mean time
)

// queue is a start-time fair queue. The next request belongs to the owner with the lowest tag. Each request raises the tag of
// its owner by its time in flight, in units of the mean of all requests, divided by the owner's weight. So slow requests of an
// owner leave as many places to the other owners as quick requests do.
type queue struct {
	owners  map[string]*owner
	pruneAt int // number of owners at which idle owners are removed
	waiting int
	now     float64       // virtual time: the tag of the request that started last
	mean    time.Duration // moving average of the time in flight
}

// owner is a participant of the queue.
type owner struct {
	name     string
	weight   float64
	tag      float64 // tag of its next request
	inFlight int
	lines    [Classes][]*waiter // waiting requests of each class, in order of arrival
}

// waiter is a request in the queue.
type waiter struct {
	Request
	owner    *owner
	deadline time.Time     // zero if the request has no deadline
	decided  chan struct{} // closed when permit or err is set; nil if the request did not wait
	permit   *Permit
	granted  Permit // storage of permit
	err      error
}

// add adds a request to the waiting requests of its owner and class, at the position of its arrival.
func (q *queue) add(w *waiter) {
	w.owner = q.join(w.Request)
	line := &w.owner.lines[w.Class]
	at, _ := slices.BinarySearchFunc(*line, w.Arrived, func(other *waiter, arrived time.Time) int {
		return cmp.Or(other.Arrived.Compare(arrived), -1)
	})
	*line = slices.Insert(*line, at, w)
	q.waiting++
}

// join returns the owner of a request. An owner without a waiting request accumulates no credit. A new owner starts after
// one request of each other owner, so that any number of new owners delays the others only briefly.
func (q *queue) join(r Request) *owner {
	o := q.owners[r.Owner]
	if o == nil {
		q.prune()
		o = &owner{name: r.Owner, weight: cmp.Or(r.Weight, 1)}
		o.tag = q.now + 1/o.weight
		q.owners[r.Owner] = o
	}
	o.weight = cmp.Or(r.Weight, o.weight)
	if o.first() == nil {
		o.tag = max(o.tag, q.now)
	}
	return o
}

// prune removes idle owners if there are many owners.
func (q *queue) prune() {
	if len(q.owners) >= q.pruneAt {
		maps.DeleteFunc(q.owners, func(_ string, o *owner) bool { return o.inFlight == 0 && o.first() == nil && o.tag <= q.now+1/o.weight })
		q.pruneAt = max(keptOwners, 2*len(q.owners))
	}
}

// next returns the first request of the owner with the lowest tag, or nil. It skips owners whose first request may not start.
func (q *queue) next(mayStart func(*waiter) bool) (next *waiter) {
	for _, o := range q.owners {
		if w := o.first(); w != nil && mayStart(w) && (next == nil || w.isBefore(next)) {
			next = w
		}
	}
	return next
}

// first returns the first waiting request of the lowest class that has one, or nil.
func (o *owner) first() *waiter {
	for _, line := range o.lines {
		if len(line) > 0 {
			return line[0]
		}
	}
	return nil
}

// before returns the approximate number of requests that start before a new one: those of its owner up to its class, and of
// each other owner as many as its weight allows in the same time.
func (q *queue) before(r Request) (n float64) {
	own := cmp.Or(q.owners[r.Owner], &owner{weight: 1})
	n = float64(own.waiting(r.Class))
	round := (n + 1) / cmp.Or(r.Weight, own.weight)
	for _, o := range q.owners {
		if o != own {
			n += min(float64(o.waiting(Poll)), round*o.weight)
		}
	}
	return n
}

// waiting returns the number of waiting requests of an owner up to a class.
func (o *owner) waiting(c Class) (n int) {
	for _, line := range o.lines[:c+1] {
		n += len(line)
	}
	return n
}

// polls returns the number of polls in the queue.
func (q *queue) polls() (n int) {
	for _, o := range q.owners {
		n += len(o.lines[Poll])
	}
	return n
}

func (w *waiter) isBefore(other *waiter) bool {
	return cmp.Or(cmp.Compare(w.owner.tag, other.owner.tag), w.Arrived.Compare(other.Arrived), cmp.Compare(w.owner.name, other.owner.name)) < 0
}

// start removes a request that starts, and raises the tag of its owner as for a request of the mean time.
func (q *queue) start(w *waiter, p *Permit) {
	q.now = max(q.now, w.owner.tag)
	w.owner.tag += 1 / w.owner.weight
	w.owner.inFlight++
	q.decide(w, p, nil)
}

// end corrects the tag of an owner when a request ends after the given time in flight.
func (q *queue) end(o *owner, took time.Duration, served bool) {
	if !served {
		o.tag -= 1 / o.weight // the owner does not pay for a request that was not served
		return
	}
	q.mean += (took - cmp.Or(q.mean, took)) / meanOf
	q.mean = cmp.Or(q.mean, took)
	if q.mean > 0 {
		o.tag += (min(float64(took)/float64(q.mean), maxPrice) - 1) / o.weight
	}
}

// decide removes a request from the queue, and sets its permit or error.
func (q *queue) decide(w *waiter, p *Permit, err error) {
	line := &w.owner.lines[w.Class]
	at := slices.Index(*line, w)
	*line = slices.Delete(*line, at, at+1)
	q.waiting--
	if w.permit, w.err = p, err; w.decided != nil {
		close(w.decided)
	}
}

// all returns all requests in the queue.
func (q *queue) all() (all []*waiter) {
	for _, o := range q.owners {
		all = append(all, slices.Concat(o.lines[:]...)...)
	}
	return all
}
