package watch

import (
	"context"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// accountRead is a read of the account that the poller is to make: for those who ask, or, for want of another read under
// the API key, to tell a generation that is gone from a catalog that is. The tenant's mutex guards it.
type accountRead struct {
	wanted   bool
	inFlight bool
	asking   []chan<- accountAnswer // for the next one
}

// accountAnswer is what the catalog has said of an account.
type accountAnswer struct {
	account catalog.Account
	err     error
}

// ask asks for a read, and gives its answer.
func (r *accountRead) ask() <-chan accountAnswer {
	answer := make(chan accountAnswer, 1)
	r.wanted, r.asking = true, append(r.asking, answer)
	return answer
}

// due reports whether the account is to be read. One read is made at a time.
func (r *accountRead) due() bool { return r.wanted && !r.inFlight }

// begin begins a read, and gives those who wait for its answer.
func (r *accountRead) begin() (asking []chan<- accountAnswer) {
	asking = r.asking
	*r = accountRead{inFlight: true}
	return asking
}

// askAgain has a read made again that was not made.
func (r *accountRead) askAgain(asking []chan<- accountAnswer) {
	*r = accountRead{wanted: true, asking: append(asking, r.asking...)}
}

// Attendance is a stream under a credential that watches no generations. It keeps the poller of the credential, counts as
// a watch, and has to end with the others.
type Attendance struct {
	stream
	agenda *agenda
	ended  chan error
}

// newAttendance begins an attendance; the mutex of the agenda is held.
func newAttendance(a *agenda, trace TraceRef) *Attendance {
	one := &Attendance{agenda: a, ended: make(chan error, 1)}
	one.stream = stream{trace: trace, notify: func() { one.ended <- one.err }} // which is called once
	a.attending = append(a.attending, &one.stream)
	a.watches++
	return one
}

// Ended says once why the stream has to end: the hub is drained, or the catalog rejects a forwarded API key.
func (a *Attendance) Ended() <-chan error { return a.ended }

// Standing is how the catalog behaves towards the credential. No poll is due before its NextPoll.
func (a *Attendance) Standing() *Heartbeat {
	a.agenda.mu.Lock()
	defer a.agenda.mu.Unlock()
	beat := a.agenda.newHeartbeat(a.agenda.health.answered)
	beat.NextPoll = a.agenda.opens(time.Now())
	return beat
}

// Deliver traces and counts an event that goes to the stream, as those of watches are. ctx is that of the stream.
func (a *Attendance) Deliver(ctx context.Context, event Event, send func() error) error {
	delivered := a.agenda.cfg.Observer.Delivery(ctx, a.trace, event, nil)
	err := send()
	if delivered != nil {
		delivered()
	}
	return err
}

// Leave ends the attendance.
func (a *Attendance) Leave() {
	a.agenda.mu.Lock()
	defer a.agenda.mu.Unlock()
	a.agenda.watches--
	a.agenda.attending = slices.DeleteFunc(a.agenda.attending, func(s *stream) bool { return s == &a.stream })
	a.agenda.queue.wakeBy(time.Now())
}
