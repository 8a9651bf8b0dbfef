package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/limiter"
)

// maxWaiting is the maximum number of lines in [limiters.Waiting].
const maxWaiting = 100

// limiters lists the requests that wait for permits, and the limiters that grant no permits.
type limiters struct {
	Closed  []closedLimiter `json:"closed"`
	Waiting []waiters       `json:"waiting"` // at most 100, longest wait first
	Lines   int             `json:"lines"`   // number of lines, including lines above the limit
}

// closedLimiter describes an API key whose limiter grants no permits, or no permits for orders.
type closedLimiter struct {
	Key    string     `json:"key"`
	Reason string     `json:"reason"` // rate_limited, unavailable or daily_cap, as in metrics
	Till   *time.Time `json:"till"`   // end of the pause; null while one request probes the catalog
}

// dailyCap is the reason of a limiter that grants no permits for orders.
const dailyCap = "daily_cap"

// waiters describes the requests of one owner and class that wait for permits.
type waiters struct {
	Key    string    `json:"key"`
	Owner  string    `json:"owner"`
	Class  string    `json:"class"`
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest"` // arrival of the first request
}

// limitersOf returns the states of the limiters for the status page.
func limitersOf(states map[string]limiter.State, now time.Time) limiters {
	g := limiters{Closed: []closedLimiter{}, Waiting: []waiters{}}
	for key, s := range states {
		name := catalog.Tenant(key).Fingerprint()
		if s.Closed {
			g.Closed = append(g.Closed, pauseOf(name, s, now))
		}
		if s.Capped {
			g.Closed = append(g.Closed, closedLimiter{Key: name, Reason: dailyCap})
		}
		for _, w := range s.Waiting {
			g.Waiting = append(g.Waiting, waiters{name, w.Owner, w.Class.String(), w.Count, w.Since.UTC()})
		}
	}
	slices.SortFunc(g.Closed, func(a, b closedLimiter) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Reason, b.Reason))
	})
	slices.SortFunc(g.Waiting, func(a, b waiters) int { return cmp.Or(a.Oldest.Compare(b.Oldest), strings.Compare(a.Owner, b.Owner)) })
	g.Lines = len(g.Waiting)
	g.Waiting = g.Waiting[:min(len(g.Waiting), maxWaiting)]
	return g
}

func pauseOf(key string, s limiter.State, now time.Time) closedLimiter {
	one := closedLimiter{Key: key, Reason: "rate_limited"}
	if s.Reason == limiter.Unavailable {
		one.Reason = "unavailable"
	}
	if s.Paused.After(now) {
		one.Till = when(s.Paused)
	}
	return one
}
