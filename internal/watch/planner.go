package watch

import (
	"slices"
	"time"
)

// sweepFrom is the number of generations from which one list call is cheaper than reads.
const sweepFrom = 3

// situation is all that decides the next requests of one credential.
type situation struct {
	now          time.Time
	limit        int         // number of requests that may be made
	ready        []candidate // due entries
	nextDue      time.Time   // when another entry falls due; zero: none does
	preferHinted bool        // the next read goes to a hinted one
	listFailing  bool        // the last sweep failed: a read first shows whether reads fail too

	sweeps     bool          // a sweep serves enough entries to be worth it
	firstList  bool          // a watcher of everything waits for its first list
	sweeping   bool          // a sweep is in flight
	sweptAt    time.Time     // when the last sweep began
	sweepAt    time.Time     // when the density of all served entries asks for the next one
	sweepAfter time.Time     // no sweep before, as the last one failed
	least      time.Duration // the shortest interval
}

// candidate is a due entry.
type candidate struct {
	e       *entry
	urgency float64 // how long it is overdue, divided by the worth of a poll
	hinted  bool    // the list says that it has changed
	swept   bool    // a sweep would serve it
	first   bool    // it was never read, and somebody waits for it
}

// plan is the next requests.
type plan struct {
	sweep        bool
	reads        []*entry
	more         bool      // there are more requests than the limit allows
	next         time.Time // when a sweep or another entry is due; zero: none is
	preferHinted bool      // the last read goes to a hinted one
}

// plan decides the next requests. It is a pure function.
func (s situation) plan() (p plan) {
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
		var e *entry
		e, reads = s.mostUrgent(reads)
		p.reads = append(p.reads, e)
	}
	p.more, p.preferHinted = p.more || len(reads) > 0, s.preferHinted
	p.next = earliest(p.next, s.nextDue)
	return p
}

// singleReads gives the entries to read singly, and decides when the next sweep is.
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
	slow := s.sweptAt.Add(s.least) // a list call that takes longer holds nobody up
	switch {
	case s.sweeping && s.now.Before(slow):
		p.next = slow
		return reads
	case s.sweeping, p.next.After(s.now) && len(first) < sweepFrom && !s.firstList:
		reads = append(reads, first...) // a few are not worth a sweep out of turn
	case len(first) >= sweepFrom || s.firstList:
		p.next = earliest(p.next, s.sweptAt.Add(s.least/2))
	}
	if p.next = latest(p.next, s.sweepAfter); s.sweeping {
		p.next = time.Time{} // its answer plans again
	}
	return reads
}

// mostUrgent takes the next read. Every second one goes to a hinted entry: where the list and the reads
// never agree, hinted ones alone would starve the others.
func (s *situation) mostUrgent(reads []candidate) (*entry, []candidate) {
	s.preferHinted = !s.preferHinted
	best := 0
	for i, c := range reads {
		if s.before(c, reads[best]) {
			best = i
		}
	}
	e := reads[best].e
	return e, slices.Delete(reads, best, best+1)
}

func (s *situation) before(a, b candidate) bool {
	if s.preferHinted && a.hinted != b.hinted {
		return a.hinted
	}
	return a.urgency > b.urgency
}
