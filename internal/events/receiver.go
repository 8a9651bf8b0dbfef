package events

import (
	"maps"
	"time"
)

const (
	mostInFlight    = 16
	outageLeast     = time.Second      // before a receiver is asked again that has failed; doubles
	outageAtMost    = 15 * time.Second // at most
	outageDoublings = 4
)

// receiver is how the receiver of a team behaves. While it fails, one event at a time asks for all.
type receiver struct {
	inFlight map[string]bool // events by id; false: it has ended since the ledger was last asked, which may not know yet
	failures int             // in a row
	rest     time.Time       // it is left alone until then
	until    time.Time       // this process tells the team until then
	logged   bool            // the log says that it fails
}

// room is how many events may leave now, before the ledger is asked which.
func (r *receiver) room(now time.Time) int {
	maps.DeleteFunc(r.inFlight, func(_ string, leaving bool) bool { return !leaving })
	switch {
	case now.Before(r.rest):
		return 0
	case r.failures > 0:
		return max(0, 1-len(r.inFlight))
	}
	return mostInFlight - len(r.inFlight)
}

// turns notes whether the receiver has taken an event, and reports whether the log has to say that it fails now, or that
// it takes events again: once each. An event that was refused before says nothing new.
func (r *receiver) turns(taken, tried bool) (fails, again bool) {
	fails, again = !taken && !tried && !r.logged, taken && r.logged
	r.logged = r.logged && !taken || fails
	return fails, again
}

// done notes the end of an attempt, and whether the receiver has taken the event. It reports whether the team is this
// process's no more to tell: the receiver has failed, and nothing is on its way.
func (r *receiver) done(id string, ok, taken bool, now time.Time) (left bool) {
	r.inFlight[id] = false
	if ok {
		r.failures, r.rest = 0, time.Time{}
		return false
	}
	r.rest = now.Add(min(outageLeast<<min(r.failures, outageDoublings), outageAtMost))
	r.failures++
	for _, leaving := range r.inFlight {
		if leaving {
			return false
		}
	}
	if !taken {
		r.until = time.Time{}
	}
	return !taken
}
