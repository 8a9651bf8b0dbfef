package cluster

import "time"

// clockSpan is for how long a logical time proves at least that a message is recent. It proves it for at
// most twice as long.
const clockSpan = 30 * time.Second

// logicalClock proves that a message is recent, though the wall clocks of replicas differ. The revision of
// the lease is the time: it grows with each renewal, the leader sends it in each message, and the others
// send back the newest that they have heard. A recorded message that is sent again later has an old time.
type logicalClock struct {
	epoch         int64
	newest        uint64
	before, floor uint64 // the newest at the beginning of the last two spans
	next          time.Time
}

// learn takes in a revision of the lease.
func (c *logicalClock) learn(epoch int64, revision uint64, now time.Time) {
	if epoch != c.epoch {
		*c = logicalClock{epoch: epoch}
	}
	if !now.Before(c.next) {
		c.floor, c.before, c.next = c.before, c.newest, now.Add(clockSpan)
	}
	c.newest = max(c.newest, revision)
}

// recent reports whether a message with this logical time is recent.
func (c *logicalClock) recent(logical uint64) bool { return logical > 0 && logical >= c.floor }
