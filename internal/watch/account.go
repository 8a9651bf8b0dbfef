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

// due reports whether the account is to be read. One read is made at a time.
func (r *accountRead) due() bool { return r.wanted && !r.inFlight }

// begin begins a read, and gives those who wait for its answer.
func (r *accountRead) begin() (asking []chan<- accountAnswer) {
	asking = r.asking
	*r = accountRead{inFlight: true}
	return asking
}

// ReadAccount reads the account behind a credential as a poll: when the budget of requests allows it, on no caller's
// context. ctx ends the wait for the answer.
func (h *Hub) ReadAccount(ctx context.Context, cred catalog.Credential) (catalog.Account, error) {
	answer := make(chan accountAnswer, 1)
	t := h.find(cred, true)
	t.accountRead.wanted, t.accountRead.asking = true, append(t.accountRead.asking, answer)
	t.queue.wakeBy(time.Now())
	t.mu.Unlock()
	select {
	case got := <-answer:
		return got.account, got.err
	case <-ctx.Done():
		return catalog.Account{}, context.Cause(ctx)
	case <-h.ctx.Done():
		return catalog.Account{}, ErrDraining
	}
}

// Attendance is a stream under a credential that watches no generations. It keeps the poller of the credential, counts as
// a watch, and has to end with the others.
type Attendance struct {
	tenant *tenant
	trace  TraceRef
	ended  chan error
}

// Attend begins an attendance. ctx is that of the stream, for its trace alone.
func (h *Hub) Attend(ctx context.Context, cred catalog.Credential) *Attendance {
	a := &Attendance{trace: h.cfg.Observer.TraceRef(ctx), ended: make(chan error, 1)}
	a.tenant = h.find(cred, true)
	defer a.tenant.mu.Unlock()
	a.tenant.attending = append(a.tenant.attending, a)
	a.tenant.watches++
	if h.drained.Load() { // else Drain finds it
		a.fail(ErrDraining)
	}
	return a
}

// Ended says once why the stream has to end: the hub is drained, or the catalog rejects a forwarded API key.
func (a *Attendance) Ended() <-chan error { return a.ended }

// Standing is how the catalog behaves towards the credential. No poll is due before its NextPoll.
func (a *Attendance) Standing() *Heartbeat {
	a.tenant.mu.Lock()
	defer a.tenant.mu.Unlock()
	beat := a.tenant.newHeartbeat(a.tenant.health.answered)
	beat.NextPoll = a.tenant.budget.Paused()
	return beat
}

// Leave ends the attendance.
func (a *Attendance) Leave() {
	t := a.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watches--
	t.attending = slices.DeleteFunc(t.attending, func(one *Attendance) bool { return one == a })
	t.queue.wakeBy(time.Now())
}

// fail tells why the stream has to end; the tenant's mutex is held.
func (a *Attendance) fail(err error) {
	select {
	case a.ended <- err:
	default: // it has been told
	}
}
