package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/limiter"
)

const (
	shownLines  = 100              // lines before gates that are shown
	longWaiting = 10 * time.Second // from which somebody should know of a wait
)

// gates is who waits for the catalog, and why.
type gates struct {
	Closed  []closedGate `json:"closed"`
	Waiting []line       `json:"waiting"` // at most 100, the longest first
	Lines   int          `json:"lines"`   // all of them
}

// closedGate is an API key under which the catalog takes nothing, or no orders.
type closedGate struct {
	Key    string     `json:"key"`
	Reason string     `json:"reason"` // rate_limited, unavailable or daily_cap, as in metrics
	Till   *time.Time `json:"till"`   // null where one request looks whether the catalog takes more
}

// line is the requests of an owner and class that wait for their turn.
type line struct {
	Key    string    `json:"key"`
	Owner  string    `json:"owner"`
	Class  string    `json:"class"`
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest"` // when the first of them came
}

func gatesOf(states map[string]limiter.State, now time.Time) gates {
	g := gates{Closed: []closedGate{}, Waiting: []line{}}
	for key, s := range states {
		name := catalog.Tenant(key).Fingerprint()
		if s.Closed(now) {
			g.Closed = append(g.Closed, pauseOf(name, s, now))
		}
		if s.Capped {
			g.Closed = append(g.Closed, closedGate{Key: name, Reason: "daily_cap"})
		}
		for _, w := range s.Waiting {
			g.Waiting = append(g.Waiting, line{name, w.Owner, w.Class.String(), w.Count, w.Since.UTC()})
		}
	}
	slices.SortFunc(g.Closed, func(a, b closedGate) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Reason, b.Reason))
	})
	slices.SortFunc(g.Waiting, func(a, b line) int { return cmp.Or(a.Oldest.Compare(b.Oldest), strings.Compare(a.Owner, b.Owner)) })
	g.Lines = len(g.Waiting)
	g.Waiting = g.Waiting[:min(len(g.Waiting), shownLines)]
	return g
}

func pauseOf(key string, s limiter.State, now time.Time) closedGate {
	one := closedGate{Key: key, Reason: "rate_limited"}
	if s.Why == limiter.Paused {
		one.Reason = "unavailable"
	}
	if s.Paused.After(now) {
		one.Till = when(s.Paused)
	}
	return one
}

// concerns says what an operator should know of the gates.
func (g gates) concerns(now time.Time, all *concerns) {
	for _, one := range g.Closed {
		if one.Reason == "daily_cap" {
			all.keys(true, "The daily cap of %s is reached: the catalog takes no orders until it is raised, or the day ends in UTC.", count(1), one.Key)
		}
	}
	if len(g.Waiting) == 0 || now.Sub(g.Waiting[0].Oldest) < longWaiting {
		return
	}
	count := 0
	for _, l := range g.Waiting {
		count += l.Count
	}
	all.add(false, "%d requests wait for their turn, the first for %s: more is asked than the catalog takes.", count, now.Sub(g.Waiting[0].Oldest).Round(time.Second))
}
