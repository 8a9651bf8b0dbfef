package limiter

import (
	"cmp"
	"slices"
	"time"
)

// State is the state of a limiter.
type State struct {
	Paused    time.Time // end of the latest pause; zero if it never paused
	Reason    Outcome   // reason of the pause: [Throttled] or [Unavailable]
	Probing   bool      // the time of the pause is over, but the limiter has not reopened yet
	Capped    bool      // the daily cap is reached
	NextProbe time.Time // when an order may probe the daily cap
	PollRate  float64   // maximum number of polls per second
	Polls     float64   // number of polls that may start now
	InFlight  int
	Waiting   []Waiting // sorted by the arrival of the first request
}

// Waiting describes the requests of one owner and class that wait for permits.
type Waiting struct {
	Owner string
	Class Class
	Count int
	Since time.Time // arrival of the first request
}

// IsClosed reports whether all requests wait for the end of a pause, or for the request that goes first after it.
func (s State) IsClosed(now time.Time) bool { return s.Probing || s.Paused.After(now) }

// State returns the state of the limiter.
func (l *Limiter) State() State {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{
		Paused: l.pause.until, Reason: l.pause.reason, Probing: l.pause.closed && l.pause.left(now) == 0,
		Capped: l.cap.isReached(now), NextProbe: l.cap.nextProbe,
		PollRate: float64(l.polls.Limit()), Polls: l.polls.Tokens(), InFlight: l.inFlight,
	}
	for _, o := range l.queue.owners {
		for c, line := range o.lines {
			if len(line) > 0 {
				s.Waiting = append(s.Waiting, Waiting{o.name, Class(c), len(line), line[0].Arrived})
			}
		}
	}
	slices.SortFunc(s.Waiting, func(a, b Waiting) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Owner, b.Owner)) })
	return s
}

// Polls returns the number of polls that may start now, and the time when another one may start.
func (l *Limiter) Polls() (n int, next time.Time) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.queue.polls()
	n = max(0, int(l.polls.TokensAt(now)+1e-9)-waiting)
	switch {
	case l.pause.left(now) > 0:
		return 0, l.pause.until
	case l.pause.probe != nil:
		return 0, now.Add(firstPause)
	case l.pause.closed:
		return min(n, 1), now.Add(firstPause)
	}
	return n, now.Add(max(time.Millisecond, l.pollDelay(waiting+n+1, now)))
}

// MayRetry reports whether a failed request may be retried. After many failures no request is retried, because retries make an
// outage worse.
func (l *Limiter) MayRetry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retries > maxRetries/2
}

// IsIdle reports whether no request waits or is in flight, no pause lasts, and the daily cap is not reached.
func (l *Limiter) IsIdle() bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.waiting == 0 && l.inFlight == 0 && l.pause.left(now) == 0 && !l.cap.isReached(now)
}
