package server

// A goroutine begins with a stack of 2 KB, which doubles on the way down, and each time all
// that stands on it is copied and mended: 6 % of what a call cost. So a call asks for room
// early, while little stands there, which leaves 3 % (make bench-P9). What is for the catalog
// and back is asked for once a call was received: one that never comes must not keep it. Nor
// must one that lasts.

const (
	roomToReceive = 4 << 10
	roomToServe   = 8 << 10
)

//go:noinline
func makeRoomToReceive(at int) byte {
	var room [roomToReceive]byte
	room[at] = 1 // else the compiler would do without
	return room[at/2]
}

//go:noinline
func makeRoomToServe(at int) byte {
	var room [roomToServe]byte
	room[at] = 1
	return room[at/2]
}
