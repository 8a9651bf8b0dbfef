package watch

import (
	"slices"
	"time"
)

// situation is the input of [situation.planRequests], which chooses the next requests for one credential.
type situation struct {
	now          time.Time
	limit        int         // maximum number of requests in the plan
	ready        []candidate // due generations
	nextDue      time.Time   // earliest due time of the generations that are not in ready; zero if all are in ready
	preferHinted bool        // whether the last read preferred candidates whose field hinted is set; alternates with each read
	listFailing  bool        // whether the last list request failed, and no individual read has received a response since then

	sweeps     bool          // whether list requests are useful: a watch of all generations is open, or one request polls at least sweepFrom generations
	firstList  bool          // whether a watch of all generations waits for its first list
	sweeping   bool          // whether a sweep (list request) is in flight
	sweptAt    time.Time     // time when the last sweep (list request) started
	sweepAt    time.Time     // time when the next sweep (list request) is due
	sweepAfter time.Time     // time before which no sweep (list request) starts, because the last one failed
	least      time.Duration // minimum poll interval
}

// candidate is a due generation.
type candidate struct {
	e       *generation
	urgency float64 // priority of the generation's read; see [poller.urgency]
	hinted  bool    // whether the list shows a change that no individual read of the generation has confirmed yet
	swept   bool    // whether a list request can replace an individual read of the generation
	first   bool    // whether the generation has no state that is recent enough to be delivered
}

// plan describes the next requests.
type plan struct {
	sweep        bool
	reads        []*generation
	more         bool      // whether more requests are due than this plan contains
	next         time.Time // time of the next list request or the next read, whichever is earlier; zero if neither is planned
	preferHinted bool      // value of situation.preferHinted for the next plan
}

// planRequests chooses the next requests. It changes nothing, and its result depends only on s.
func (s situation) planRequests() (p plan) {
	reads := s.singleReads(&p)
	p.sweep = !p.next.IsZero() && !s.sweeping && !p.next.After(s.now)
	if p.sweep && s.listFailing && len(reads) > 0 {
		p.sweep, p.more = false, true
	}
	if p.sweep {
		if s.limit == 0 {
			return plan{more: true, preferHinted: s.preferHinted}
		}
		s.limit--
	}
	for ; s.limit > 0 && len(reads) > 0; s.limit-- {
		var e *generation
		e, reads = s.mostUrgent(reads)
		p.reads = append(p.reads, e)
	}
	p.more, p.preferHinted = p.more || len(reads) > 0, s.preferHinted
	p.next = earliest(p.next, s.nextDue)
	return p
}

// singleReads returns the due generations that must be read individually. It sets p.next to one of these times:
//
//   - if no list request is needed: zero
//   - if a list request is needed, and none is in flight: the time of the next list request
//   - while a list request is in flight: the time after which reads no longer wait for its response, or zero after that time
func (s *situation) singleReads(p *plan) (reads []candidate) {
	var first []candidate
	for _, c := range s.ready {
		switch {
		case !c.swept || !s.sweeps:
			reads = append(reads, c)
		case c.first:
			first = append(first, c)
		}
	}
	if !s.sweeps && !s.firstList {
		return reads
	}
	p.next = s.sweepAt
	slow := s.sweptAt.Add(s.least) // time after which reads of generations without a recent state no longer wait for the list request in flight
	switch {
	case s.sweeping && s.now.Before(slow):
		p.next = slow
		return reads
	case s.sweeping, p.next.After(s.now) && len(first) < sweepFrom && !s.firstList:
		reads = append(reads, first...) // read individually, because the list request in flight is slow, or because these few generations do not justify an early list request
	case len(first) >= sweepFrom || s.firstList:
		p.next = earliest(p.next, s.sweptAt.Add(s.least/2))
	}
	if p.next = latest(p.next, s.sweepAfter); s.sweeping {
		p.next = time.Time{} // the poller plans again after the response to the list request
	}
	return reads
}

// mostUrgent removes and returns the generation to read next. Every second call prefers generations for which the list has
// shown a change that no read has confirmed yet. If every call did, a list that keeps showing such changes would starve the
// other generations.
func (s *situation) mostUrgent(reads []candidate) (*generation, []candidate) {
	s.preferHinted = !s.preferHinted
	best := 0
	for i, c := range reads {
		if s.comesBefore(c, reads[best]) {
			best = i
		}
	}
	e := reads[best].e
	return e, slices.Delete(reads, best, best+1)
}

func (s *situation) comesBefore(a, b candidate) bool {
	if s.preferHinted && a.hinted != b.hinted {
		return a.hinted
	}
	return a.urgency > b.urgency
}
