package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// viewer is a watch in a random run, with its deliveries.
type viewer struct {
	t      *testing.T
	name   string
	world  *world
	req    Request
	window time.Duration
	slow   time.Duration // maximum duration of a delivery
	cancel context.CancelFunc
	began  time.Time

	mu          sync.Mutex
	generations map[string]*story
	first       int // number of generations delivered as initial states
	caughtUp    int // number in the caught-up event; -1 if none has arrived
	last        time.Time
	ended       time.Time
	err         error
}

// story contains a generation's deliveries to a watcher.
type story struct {
	etag   string
	states []catalog.State
	failed time.Time // time when the failed state was delivered
}

func (s *viewer) take(event Event) error {
	s.mu.Lock()
	now := time.Now()
	if silence := now.Sub(s.last); silence > s.req.Heartbeat+3*handoff { // several deliveries in a row may block; see handoff
		s.t.Errorf("%s: silence for %v, and heartbeats are due after %v", s.name, silence, s.req.Heartbeat)
	}
	switch {
	case event.CaughtUp:
		if s.caughtUp >= 0 {
			s.t.Errorf("%s: caught up after %d and %d", s.name, s.first, s.caughtUp)
		}
		s.caughtUp = s.first
	case event.Known != nil:
		id := event.Known.ID
		if event.Known.Etag != s.req.KnownEtags[id] || s.generations[id] != nil || s.caughtUp >= 0 {
			s.t.Errorf("%s: a repeat of something else", s.name)
		}
		s.first++
		s.generations[id] = &story{etag: event.Known.Etag, states: []catalog.State{event.Known.State}}
	case event.Update != nil:
		s.update(*event.Update, now)
	}
	s.mu.Unlock()
	if s.slow > 0 {
		time.Sleep(time.Duration(now.UnixNano() % int64(s.slow)))
	}
	s.last = time.Now()
	return nil
}

func (s *viewer) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.ended = err, time.Now()
}

func (s *viewer) update(u Update, now time.Time) {
	s.world.checkSaid(u)
	id, next := u.ID, u.State
	one := s.generations[id]
	switch {
	case len(s.req.IDs) > 0 && !slices.Contains(s.req.IDs, id):
		s.t.Errorf("%s: got %s", s.name, id)
	case u.Initial && u.Etag == s.req.KnownEtags[id]:
		s.t.Errorf("%s: %s is delivered, and known", s.name, id)
	case u.Initial && (one != nil || s.caughtUp >= 0), !u.Initial && one == nil && len(s.req.IDs) > 0:
		s.t.Errorf("%s: %s is marked as initial: %v", s.name, id, u.Initial)
	}
	if u.Initial {
		s.first++
	}
	if one == nil {
		one = &story{}
		s.generations[id] = one
	} else if one.etag == u.Etag {
		s.t.Errorf("%s: %s is delivered twice as %v", s.name, id, next)
	}
	if one.etag, one.states = u.Etag, append(one.states, next); next == catalog.StateFailed {
		one.failed = now
	}
}

// checkSaid checks that the catalog has returned the update's state at some time.
func (w *world) checkSaid(u Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := u.ID
	if u.State == catalog.StateDeleted {
		if !w.denied[id] {
			w.t.Errorf("%s: %s is delivered as deleted, and was never missing", w.name, id)
		}
		return
	}
	if !w.said[id][u.Etag] || !strings.Contains(string(u.Extra), fmt.Sprintf(`"of":%q`, w.name)) {
		w.t.Errorf("%s: %s is delivered as %v, which it never was", w.name, id, u.State)
	}
}

// checkDelivered checks that each generation's states were delivered in a valid order. Only a generation that the
// catalog reported as missing may reappear. It then counts as a new generation.
func (s *viewer) checkDelivered() {
	for id, one := range s.generations {
		high := lifecycle.Unseen
		for i, state := range one.states {
			if i > 0 && one.states[i-1] == catalog.StateDeleted {
				high = lifecycle.Unseen
			}
			before := catalog.State(0)
			if i > 0 {
				before = one.states[i-1]
			}
			ended := before.Terminal() && before != catalog.StateDeleted && state != before &&
				state != catalog.StateRefunded && state != catalog.StateDeleted
			if ended || StatusOf(state) < high && state != catalog.StateUnrecognized && state != catalog.StateDeleted {
				s.t.Errorf("%s: %s went %v", s.name, id, one.states)
			}
			high = max(high, StatusOf(state))
		}
	}
}

// checkNewest checks that an active watch has received the latest state of all its generations. It also checks that a
// watch has ended only because it reached its goal or for another valid reason.
func (s *viewer) checkNewest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if !s.ended.IsZero() {
		s.checkEnd()
		return
	}
	if s.caughtUp < 0 {
		s.t.Errorf("%s: never caught up", s.name)
	}
	ids := s.req.IDs
	if len(ids) == 0 {
		for i, id := range s.world.order {
			if !s.world.has[id].deleted && (s.world.part == 0 || i%s.world.part == 0) {
				ids = append(ids, id)
			}
		}
	}
	for _, id := range ids {
		one, r := s.generations[id], s.world.has[id]
		want := catalog.StateDeleted
		if r != nil && !r.deleted {
			want = r.state()
		}
		switch {
		case one == nil:
			s.t.Errorf("%s: never got %s", s.name, id)
		case one.states[len(one.states)-1] != want && !s.reached(one):
			s.t.Errorf("%s: %s was delivered as %v, and is %v now", s.name, id, one.states, want)
		}
	}
}

// reached reports whether a generation's deliveries have reached the watch's goal.
func (s *viewer) reached(one *story) bool {
	state := one.states[len(one.states)-1]
	switch {
	case !state.Terminal():
		return false
	case state != catalog.StateFailed, s.req.Goal == Terminal && len(s.req.IDs) > 0:
		return len(s.req.IDs) > 0
	}
	missable := s.world.calm.IsZero() || one.failed.Before(s.world.calm)
	return missable && time.Since(one.failed) >= s.window
}

func (s *viewer) checkEnd() {
	switch {
	case errors.Is(s.err, context.Canceled):
	case s.err != nil && (s.world.cred.IsShared() || catalog.KindOf(s.err) != catalog.KindCredentialRejected):
		s.t.Errorf("%s: ended with %v", s.name, s.err)
	case s.err != nil:
	case len(s.req.IDs) == 0:
		s.t.Errorf("%s: a watch of everything has ended", s.name)
	case s.caughtUp < 0:
		s.t.Errorf("%s: ended before it had caught up", s.name)
	default:
		for _, id := range s.req.IDs {
			if one := s.generations[id]; one == nil || !one.states[len(one.states)-1].Terminal() {
				s.t.Errorf("%s: ended before %s", s.name, id)
			}
		}
	}
}

// checkOver checks that the watch has ended if all its generations have.
func (s *viewer) checkOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.IsZero() && len(s.req.IDs) > 0 {
		s.t.Errorf("%s: still open, and all is over", s.name)
	}
}

// pick returns up to n IDs, some of which do not exist.
func (w *world) pick(n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.any(n)
}

// trouble starts a random fault.
func (w *world) trouble(random *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := fault(random.IntN(int(faults)))
	if f == rejecting && random.IntN(4) > 0 { // a rejection ends all watches of a world, so it is rarer
		return
	}
	if f == oneFails || f == oneDenied {
		w.lost = w.any(1)[0]
	}
	w.kind = []catalog.Kind{catalog.KindMalformed, catalog.KindUnavailable, catalog.KindForbidden}[random.IntN(3)]
	w.until[f] = time.Now().Add(time.Duration(random.ExpFloat64() * float64(20*time.Second)))
}

// change advances a random generation to its next state.
func (w *world) change(random *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.has[w.order[random.IntN(len(w.order))]]
	if random.IntN(3) == 0 {
		r.detail++
		return
	}
	r.move(random)
}
