package telemetry

import (
	"cmp"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// line is who waits: an owner and a class.
type line struct{ owner, class string }

// gatesReading is what the gates of all API keys say together.
type gatesReading struct {
	waiting map[line]int
	owners  map[string]bool
	wait    time.Duration
	closed  map[string]int // by reason
	opens   time.Duration
}

func readGates(states map[string]limiter.State, now time.Time) gatesReading {
	r := gatesReading{waiting: map[line]int{}, owners: map[string]bool{}, closed: map[string]int{}}
	for _, s := range states {
		for _, w := range s.Waiting {
			r.waiting[line{r.nameOf(w.Owner), w.Class.String()}] += w.Count
			r.wait = max(r.wait, now.Sub(w.Since))
		}
		if s.Closed(now) {
			r.closed[reasonOf(s.Why)]++
			r.opens = max(r.opens, s.Paused.Sub(now))
		}
		if s.Capped {
			r.closed["daily_cap"]++
		}
	}
	return r
}

// nameOf is an owner's name in metrics, of which there are so many at most.
func (r gatesReading) nameOf(owner string) string {
	name := cmp.Or(owner, "forwarded")
	if !r.owners[name] && len(r.owners) >= measuredOwners {
		return "other"
	}
	r.owners[name] = true
	return name
}

func reasonOf(why limiter.Outcome) string {
	if why == limiter.Paused {
		return "unavailable"
	}
	return "rate_limited"
}

func (r gatesReading) observe(value observe) {
	for l, n := range r.waiting {
		value("easel.gate.waiting", float64(n), waiter.is(l.owner), class.is(l.class))
	}
	value("easel.gate.wait", r.wait.Seconds())
	for _, reason := range closedBy.Values {
		value("easel.gate.closed", float64(r.closed[reason]), closedBy.is(reason))
	}
	value("easel.gate.opens", r.opens.Seconds())
}
