package watch

import (
	"slices"
	"time"
)

// sweepFrom is from how many generations one list call is cheaper than reads.
const sweepFrom = 3

// situation is what is known of one credential at one moment, as far as it decides what to ask next.
type situation struct {
	now          time.Time
	limit        int         // requests that may be made
	ready        []candidate // whose time has come, in the order in which it came
	preferHinted bool        // the next read goes to a hinted one
	listFailing  bool        // the list has just failed: a read first shows whether only the list does

	sweeps     bool          // a sweep serves enough to be worth it
	firstList  bool          // a watcher of everything waits for its first list
	sweeping   bool          // a sweep is on its way
	sweptAt    time.Time     // when the last sweep began
	sweepAt    time.Time     // when the density of all that it serves asks for the next one
	sweepAfter time.Time     // no sweep before, as the list has failed
	least      time.Duration // the shortest interval
}

// candidate is an entry whose time has come.
type candidate struct {
	e       *entry
	urgency float64 // how long it is overdue, measured by what a poll of it is worth
	hinted  bool    // the list has shown that it has changed
	swept   bool    // a sweep would serve it
	first   bool    // it was never read, and is waited for
}

// plan is what to ask next.
type plan struct {
	sweep        bool
	reads        []*entry
	more         bool      // there is more to ask than there is room for
	next         time.Time // when a sweep is due; zero: none is
	preferHinted bool      // the last read goes to a hinted one
}

// plan decides what to ask. It is a pure function.
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
	return p
}

// singles gives what is to be read one by one, and decides when the next sweep is.
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

// mostUrgent takes the read that is to be made next. Every second one goes to what the list has shown to
// have changed: all of them would starve the others, where the list and the reads never agree.
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
