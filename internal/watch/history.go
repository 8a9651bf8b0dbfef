package watch

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

const (
	historySize  = 100  // renders of a model that are remembered: an old version is soon forgotten
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
	renders   []uint64 // whose they are: one that is seen again teaches nothing new
	next      int      // the oldest, once all are in use
	news      int      // added since the curve was made
	curve     *curve
}

func (h histories) add(key historyKey, render uint64, d time.Duration) {
	one := h[key]
	if one == nil {
		one = &history{}
		h.makeRoom()
		h[key] = one
	}
	if slices.Contains(one.renders, render) {
		return
	}
	one.news++
	if len(one.durations) < historySize {
		one.durations, one.renders = append(one.durations, d), append(one.renders, render)
		return
	}
	one.durations[one.next], one.renders[one.next] = d, render
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

// last is the schedule that looks at a model's renders were set by so far. A list may show the ends of
// fifty at once: none of them was looked for by what the others teach.
func (h histories) last(key historyKey) *curve {
	if one := h[key]; one != nil && one.curve != nil {
		return one.curve
	}
	return unlearned
}

// curve is the schedule of a model. It is made again when a twentieth of the history is
// new, which costs up to a tenth of a millisecond.
func (h histories) curve(key historyKey) *curve {
	one := h[key]
	if one == nil {
		return unlearned
	}
	if one.curve == nil || one.news*20 >= len(one.durations) {
		one.curve, one.news = learn(one.durations, lookPrice), 0
	}
	return one.curve
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
