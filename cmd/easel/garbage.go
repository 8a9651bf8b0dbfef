package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// roomForGarbage is how much garbage there may be beside as much as there is live memory.
const roomForGarbage = 16 << 20

// makeRoomForGarbage has the garbage collector run a third as often while little memory is
// live: it runs once there is as much garbage as live memory, which is every few hundred calls,
// and a quarter of what a call costs. What it takes for live here is never touched and takes no
// memory; the garbage may take as much more. Calls cost 15 % less (make bench-P9).
//
// A higher GOGC would do the same and let a flood take a multiple. Who sets GOGC, or a GOMEMLIMIT
// in which this would count, gets what Go does.
func makeRoomForGarbage() (end func()) {
	if os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) < 8*roomForGarbage {
		return func() {}
	}
	room := make([]byte, roomForGarbage)
	return func() { runtime.KeepAlive(room) }
}
