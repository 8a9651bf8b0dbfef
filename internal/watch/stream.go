package watch

import (
	"cmp"
	"time"
)

const (
	defaultHeartbeat = 15 * time.Second
	defaultStall     = 30 * time.Second
)

// stream is the pace and the end of a watch. The tenant's mutex guards it; heartbeatAt belongs to the turn of its
// delivery.
type stream struct {
	heartbeat time.Duration // longest silence
	stall     time.Duration // longest time that one delivery may take
	notify    func()        // called when there is something to deliver
	trace     TraceRef      // of the watch

	heartbeatAt time.Time // of the next heartbeat, if nothing is delivered before
	until       time.Time // end of the watch; zero: never
	err         error     // why it ends before its goal
}

// newStream makes the stream of a watch. Zero durations are the defaults.
func newStream(heartbeat, stall time.Duration, until time.Time, notify func(), trace TraceRef) stream {
	s := stream{heartbeat: cmp.Or(heartbeat, defaultHeartbeat), stall: cmp.Or(stall, defaultStall), until: until, notify: notify, trace: trace}
	s.heartbeatAt = time.Now().Add(s.heartbeat)
	return s
}

// fail ends the watch with err, after the changes before it are delivered.
func (s *stream) fail(err error) {
	if s.err == nil {
		s.err = err
		s.notify()
	}
}

// expire ends the watch at its age.
func (s *stream) expire(now time.Time) {
	if !s.until.IsZero() && !now.Before(s.until) {
		s.fail(ErrExpired)
	}
}
