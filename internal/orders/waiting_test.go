package orders_test

import (
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/proctest"
)

// enableEvents reopens the ledger so that it writes events for the given owners. The data of each event is the
// generation's text result, or empty if there is no text.
func (s *stack) enableEvents(owners ...string) {
	s.Helper()
	teams := map[string]ledger.Team{}
	for _, owner := range owners {
		teams[owner] = ledger.Team{Subscribed: true}
	}
	s.reopen(&ledger.EventConfig{
		Teams: func() map[string]ledger.Team { return teams },
		Generation: func(_ ledger.Order, text *string) string {
			if text == nil {
				return ""
			}
			return *text
		},
	})
}

// writtenEvents assigns a position in the feed to each event that the ledger has written, and returns the first 100
// events of the feed.
func (s *stack) writtenEvents() []ledger.FeedEvent {
	s.Helper()
	_, err := s.ledger.NumberEvents(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	all, err := s.ledger.Feed(s.Context(), nil, 0, 100)
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// rejectUpdates creates a trigger that makes the database reject updates of orders that match an SQL condition. end drops
// the trigger.
func (s *stack) rejectUpdates(condition string) (end func()) {
	s.Helper()
	run := func(statement string) { proctest.Exec(s, "sqlite:"+s.path, statement) }
	run(`CREATE TRIGGER reject BEFORE UPDATE ON orders WHEN ` + condition + ` BEGIN SELECT RAISE(ABORT, 'rejected'); END`)
	return func() { run(`DROP TRIGGER reject`) }
}

// endedVersion returns a version of g with the given state and cost.
func endedVersion(g catalog.Generation, state catalog.State, cents int64) catalog.Version {
	g.State, g.Status, g.CostCents = state, "ended", &cents
	return g.Version()
}

func TestFinalStatesAreRecordedAfterLedgerFailure(t *testing.T) {
	for name, c := range map[string]struct {
		see    func(*replica, catalog.Credential, catalog.Generation)
		events []string
	}{
		"deletion detected": {func(r *replica, cred catalog.Credential, g catalog.Generation) {
			r.orders.Hub.Observe(r.Context(), cred, endedVersion(g, catalog.StateSucceeded, 7), true)
			r.orders.Hub.PresumedDeleted(r.Context(), cred, g.ID)
		}, []string{ledger.EventSucceeded, ledger.EventDeleted}},
		"deletion by a call": {func(r *replica, cred catalog.Credential, g catalog.Generation) {
			r.orders.Hub.Observe(r.Context(), cred, endedVersion(g, catalog.StateSucceeded, 7), true)
			r.orders.Hub.Deleted(r.Context(), cred, g.ID)
		}, []string{ledger.EventSucceeded, ledger.EventDeleted}},
		"refund detected": {func(r *replica, cred catalog.Credential, g catalog.Generation) {
			r.orders.Hub.Observe(r.Context(), cred, endedVersion(g, catalog.StateFailed, 7), true)
			r.orders.Hub.Observe(r.Context(), cred, endedVersion(g, catalog.StateRefunded, 7), true)
		}, []string{ledger.EventFailed, ledger.EventRefunded}},
	} {
		for when, fails := range map[string]time.Duration{"never": 0, "for a minute": time.Minute, "until the hub is closed": -1} {
			t.Run(name+", the ledger fails "+when, func(t *testing.T) {
				inStack(t, 1000, func(s *stack) {
					s.enableEvents()
					r := s.replica()
					g := mustPlace(s, r, "k", "a harbour")
					time.Sleep(time.Minute) // a minute after the order, a 404 can no longer mean that the generation is not visible yet
					if fails != 0 {
						ends := s.rejectUpdates("TRUE")
						c.see(r, r.held("studio"), g)
						time.Sleep(max(fails, 0))
						ends()
					} else {
						c.see(r, r.held("studio"), g)
					}
					if fails < 0 {
						r.orders.Hub.Close()
					} else {
						time.Sleep(time.Minute)
					}
					var got []string
					for _, e := range s.writtenEvents() {
						got = append(got, e.Type)
					}
					if !slices.Equal(got, c.events) {
						s.Errorf("the events are %q, want %q", got, c.events)
					}
					if one := s.list(ledger.Filter{})[0]; !one.Settled || one.UnconfirmedCents != 0 || one.CostCents == nil {
						s.Errorf("the order is %+v", one)
					}
				})
			})
		}
	}
}

func TestEtagOfUnsettledFailureIsNotRecorded(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r, owner := s.replica(), "studio"
		g := mustPlace(s, r, "k", "a harbour")
		recorded := func() string {
			own, err := r.orders.Owned(s.Context(), &owner, g.ID)
			if err != nil {
				s.Fatal(err)
			}
			return own[g.ID].Recorded
		}
		if etag := recorded(); etag != "" {
			s.Errorf("before the first read the etag is %q", etag)
		}
		for _, c := range []struct {
			v    catalog.Version
			want bool // whether the etag of this state is recorded; it is not recorded if the state needs another read
		}{
			{endedVersion(g, catalog.StateRunning, 7), true},
			{endedVersion(g, catalog.StateFailed, 7), false}, // the order is not settled until the failure is observed again after the refund window
			{endedVersion(g, catalog.StateRefunded, 7), true},
		} {
			r.recordVersions(r.held("studio"), c.v)
			if etag := recorded(); (etag == c.v.Etag) != c.want {
				s.Errorf("%v: the etag is %q", c.v.State, etag)
			}
		}
	})
}

func TestFailedOrderWithForwardedAPIKeyIsSettled(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		mine, g := placeForwarded(r)
		seen := endedVersion(g, catalog.StateFailed, 7)
		for range 30 { // the hub observes the generation once per minute
			own, err := r.orders.Owned(s.Context(), nil, g.ID)
			if err != nil {
				s.Fatal(err)
			}
			r.orders.Hub.Observe(s.Context(), mine, seen, own[g.ID].Recorded != seen.Etag)
			time.Sleep(time.Minute)
		}
		if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Failed || !one.Settled {
			s.Errorf("the order is %+v", one)
		}
	})
}

// placeForwarded places an order for a caller that forwards its API key.
func placeForwarded(r *replica) (catalog.Credential, catalog.Generation) {
	r.Helper()
	cred := catalog.Forwarded(catalog.NewSecret(r.key))
	receipt, err := r.orders.Place(r.Context(), cred, orders.Request{
		ModelID: "studio/haiku", Inputs: []byte(`{"prompt":"a harbour"}`), IdempotencyKey: "k", UpstreamKey: "k",
	})
	if err != nil {
		r.Fatal(err)
	}
	return cred, receipt.Generation
}
