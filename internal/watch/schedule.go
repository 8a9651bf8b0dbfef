package watch

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// interval says how long to wait before the next look at a render of the given age:
// a tenth of the age, within the bounds. So the delay stays small beside the time
// already waited, short renders are seen at once, and long ones cost few polls. The
// catalog's advice is "every few seconds".
func interval(age, minimum, maximum time.Duration) time.Duration {
	return min(max(age/10, minimum), maximum)
}

// backoff says how long to wait after so many failures in a row: doubling from the
// minimum, at most limit.
func backoff(failures int, minimum, limit time.Duration) time.Duration {
	if failures > 16 {
		return limit
	}
	return min(minimum<<max(failures-1, 0), limit)
}

// spread moves d by up to a tenth either way, so that no two polls stay in step. u is
// drawn evenly from [0, 1).
func spread(d time.Duration, u float64) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*u))
}

const (
	historySize  = 64   // renders of a model that are remembered: enough for a median, and an old version is soon forgotten
	historyLimit = 4096 // models of all credentials together
)

// historyKey names a model as one credential sees it: nothing is shared between two.
type historyKey struct {
	tenant catalog.Tenant
	model  string
}

// histories remember how long the last renders of each model took. They outlive the
// pollers.
type histories map[historyKey]*history

type history struct {
	durations []time.Duration
	next      int // the oldest, once all are in use
}

func (h histories) add(key historyKey, d time.Duration) {
	one := h[key]
	if one == nil {
		one = &history{}
		h.makeRoom()
		h[key] = one
	}
	if len(one.durations) < historySize {
		one.durations = append(one.durations, d)
		return
	}
	one.durations[one.next] = d
	one.next = (one.next + 1) % historySize
}

func (h histories) makeRoom() {
	for key := range h {
		if len(h) < historyLimit {
			return
		}
		delete(h, key)
	}
}

// remaining is the median of what was left of the renders that took longer than age.
// It is false where fewer than three did.
func (h histories) remaining(key historyKey, age time.Duration) (time.Duration, bool) {
	one := h[key]
	if one == nil {
		return 0, false
	}
	var left []time.Duration
	for _, d := range one.durations {
		if d > age {
			left = append(left, d-age)
		}
	}
	if len(left) < 3 {
		return 0, false
	}
	slices.Sort(left)
	return left[len(left)/2], true
}
