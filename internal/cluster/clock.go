package cluster

import "time"

// tickTime is how long a tick proves at least that a message is of now, and at most twice as long.
const tickTime = 30 * time.Second

// ticks prove that a message is of now, where clocks differ. The revision of the lease grows with each
// renewal; its holder says it with all that it says, and the others say the newest that they have heard.
// What was recorded and is sent again later has one of then.
type ticks struct {
	epoch         int64
	newest        uint64
	before, floor uint64 // the newest when the last two spans of time began
	next          time.Time
}

// learn takes in a revision of the lease.
func (t *ticks) learn(epoch int64, revision uint64, now time.Time) {
	if epoch != t.epoch {
		*t = ticks{epoch: epoch}
	}
	if !now.Before(t.next) {
		t.floor, t.before, t.next = t.before, t.newest, now.Add(tickTime)
	}
	t.newest = max(t.newest, revision)
}

// proves reports whether a message with a tick is of now.
func (t *ticks) proves(tick uint64) bool { return tick > 0 && tick >= t.floor }
