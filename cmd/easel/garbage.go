package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// roomForGarbage is how much garbage there may be, however little memory is live.
	roomForGarbage = 24 << 20
	// leastGoal is what the runtime takes for the least heap that is worth a collection, at a
	// GOGC of 100: a higher one raises it too.
	leastGoal = 4 << 20
)

// makeRoomForGarbage has the garbage collector run a third as often while little memory is
// live: it runs once there is as much garbage as live memory, which is every few hundred calls,
// and a quarter of what a call costs. Calls cost 15 % less (make bench-P9).
//
// A GOGC that is higher for good would do the same and let a flood take a multiple. So it is set
// anew after each collection, and is 100 again where more is live than this room. Who sets GOGC,
// or a GOMEMLIMIT in which this would count, gets what Go does.
func makeRoomForGarbage() (end func()) {
	if os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) < 8*roomForGarbage {
		return func() {}
	}
	r := &room{samples: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}}
	before := debug.SetGCPercent(100)
	r.set = 100
	r.fit()
	r.again()
	return func() {
		r.over.Store(true)
		debug.SetGCPercent(before)
	}
}

// room keeps the room for garbage.
type room struct {
	over    atomic.Bool
	samples []metrics.Sample // of what a collection has found: the collector counts them all
	set     int
}

// cycle is garbage at once: the next collection finds it. It has a pointer, as what has none may
// be kept for the sake of its neighbours.
type cycle struct{ _ *cycle }

// again fits the room after the next collection, and after all that follow.
func (r *room) again() {
	runtime.AddCleanup(new(cycle), func(r *room) {
		if !r.over.Load() {
			r.fit()
			r.again()
		}
	}, r)
}

// fit sets GOGC to what the room is of the memory that is live. To set it stops all for a
// moment, so it is not for every small change.
func (r *room) fit() {
	metrics.Read(r.samples)
	live := uint64(1)
	for _, s := range r.samples {
		live += s.Value.Uint64()
	}
	percent := int(max(100, 100*roomForGarbage/max(live, leastGoal))) //nolint:gosec // at most 600
	if percent*8 < r.set*7 || percent*7 > r.set*8 || percent == 100 && r.set != 100 {
		debug.SetGCPercent(percent)
		r.set = percent
	}
}
