package server_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/service"
)

// withEvents configures the ledger to write events.
func withEvents(o *options) {
	o.events = &ledger.EventConfig{
		Teams:      func() map[string]ledger.Team { return nil },
		Generation: service.EventData{}.Generation, Budget: service.EventData{}.Budget,
	}
}

// recordState records a generation's state in the ledger. The ledger also writes an event for the state.
func recordState(s *stack, id string, seen lifecycle.Observation) {
	s.Helper()
	if _, err := s.ledger.Observe(s.Context(), id, ledger.Observation{Observation: seen}); err != nil {
		s.Fatal(err)
	}
}

var (
	hasFailed = lifecycle.Observation{Status: lifecycle.Failed}
	isDeleted = lifecycle.Observation{Deleted: true}
)

// failedOrder places an order, records that its render failed, and returns the generation ID.
func failedOrder(s *stack, c caller, key string) string {
	s.Helper()
	id := create(s.T, c, order(s.T, text, key, "a lake")).GetGenerationId()
	recordState(s, id, hasFailed)
	return id
}

// caughtUp reads a stream of events until the stream has caught up. It returns the events and the resume token of the
// last message.
func caughtUp(t *testing.T, c caller, req *easelv1.WatchEventsRequest) (all []*easelv1.Event, token string, err error) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
	defer leave()
	err = c.events(ctx, req, func(m *easelv1.WatchEventsResponse) bool {
		if token = m.GetResumeToken(); token == "" || m.GetEmitTime() == nil {
			t.Errorf("a message without a token or a time: %v", m)
		}
		if m.GetEvent() != nil {
			all = append(all, m.GetEvent())
		}
		return m.GetCaughtUp() == nil
	})
	return all, token, err
}

// eventsOf reads a stream of events until the stream has caught up. It returns the generation ID of each event and the
// resume token of the last message.
func eventsOf(t *testing.T, c caller, req *easelv1.WatchEventsRequest) (ids []string, token string) {
	t.Helper()
	all, token, err := caughtUp(t, c, req)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		ids = append(ids, e.GetGeneration().GetGenerationId())
	}
	return ids, token
}

// sinceTheBeginning returns a request for the events from the last hour, which includes all events of a test.
func sinceTheBeginning() *easelv1.WatchEventsRequest {
	return &easelv1.WatchEventsRequest{StartTime: timestamppb.New(time.Now().Add(-time.Hour))}
}

func TestEventStreamContinuesAfterResumeToken(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		poster := as("poster")
		if ids, _ := eventsOf(t, poster, sinceTheBeginning()); len(ids) != 0 {
			t.Errorf("before the first event, got events of %q", ids)
		}
		a := failedOrder(s, poster, "a")
		all, token, err := caughtUp(t, poster, sinceTheBeginning())
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		e, g := all[0], all[0].GetGeneration()
		if e.GetType() != ledger.EventFailed || !strings.HasPrefix(e.GetEventId(), "evt_") || e.GetOwner() != "studio" || e.GetBudget() != nil || e.GetCreateTime() == nil {
			t.Errorf("the event is %v, want a failed render of studio", e)
		}
		if g.GetGenerationId() != a || g.GetState() != easelv1.State_STATE_FAILED || g.GetCaller() != "poster" || g.GetInputs() != nil {
			t.Errorf("the event's render is %v, want a failed one of poster, without inputs", g)
		}
		b, c := failedOrder(s, poster, "b"), failedOrder(s, as("banner"), "c")
		if ids, _ := eventsOf(t, as("banner"), &easelv1.WatchEventsRequest{ResumeToken: token}); !slices.Equal(ids, []string{b, c}) {
			t.Errorf("after the resume token the events are %q, want %q", ids, []string{b, c})
		}
		recordState(s, b, isDeleted)
		deletions := &easelv1.WatchEventsRequest{ResumeToken: token, Filter: &easelv1.EventFilter{Types: []string{ledger.EventDeleted}}}
		if ids, _ := eventsOf(t, poster, deletions); !slices.Equal(ids, []string{b}) {
			t.Errorf("the deletions are %q", ids)
		}
		if ids, _ := eventsOf(t, poster, &easelv1.WatchEventsRequest{}); len(ids) != 0 {
			t.Errorf("without a start time the events are %q", ids)
		}
		newest := make(chan string, 1)
		err = poster.events(t.Context(), &easelv1.WatchEventsRequest{}, func(m *easelv1.WatchEventsResponse) bool {
			if m.GetCaughtUp() != nil {
				go func() { newest <- failedOrder(s, poster, "d") }()
			}
			return m.GetEvent() == nil || m.GetEvent().GetGeneration().GetGenerationId() != <-newest
		})
		if err != nil {
			t.Errorf("an open stream ended with %v", err)
		}
	}, withEvents)
}

func TestEventsAreVisibleToTheirOwnerAndOperators(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		a, b := failedOrder(s, as("poster"), "a"), failedOrder(s, as("shop"), "b")
		ofShop := &easelv1.EventFilter{Owner: "shop"}
		want := map[string][]string{"poster": {a}, "banner": {a}, "shop": {b}, "ops": {a, b}}
		tokens := map[string]string{}
		for name, want := range want {
			var ids []string
			if ids, tokens[name] = eventsOf(t, as(name), sinceTheBeginning()); !slices.Equal(ids, want) {
				t.Errorf("the events of %s are %q, want %q", name, ids, want)
			}
		}
		one := sinceTheBeginning()
		one.Filter = ofShop
		if ids, _ := eventsOf(t, as("ops"), one); !slices.Equal(ids, []string{b}) {
			t.Errorf("an operator's filter by owner returned %q", ids)
		}
		for name, row := range map[string]struct {
			by, field string
			req       *easelv1.WatchEventsRequest
		}{
			"another owner's token":             {"shop", "resume_token", &easelv1.WatchEventsRequest{ResumeToken: tokens["poster"]}},
			"an operator's token":               {"shop", "resume_token", &easelv1.WatchEventsRequest{ResumeToken: tokens["ops"]}},
			"an unfiltered token with a filter": {"ops", "resume_token", &easelv1.WatchEventsRequest{ResumeToken: tokens["ops"], Filter: ofShop}},
			"a made-up token":                   {"ops", "resume_token", &easelv1.WatchEventsRequest{ResumeToken: "bWFkZSB1cA"}},
			"a truncated token":                 {"ops", "resume_token", &easelv1.WatchEventsRequest{ResumeToken: tokens["ops"][1:]}},
			"an unknown type":                   {"poster", "filter.types[1]", &easelv1.WatchEventsRequest{Filter: &easelv1.EventFilter{Types: []string{ledger.EventFailed, "easel.generation.foo"}}}},
			"a filter by owner":                 {"poster", "filter.owner", &easelv1.WatchEventsRequest{Filter: ofShop}},
		} {
			_, _, err := caughtUp(t, as(row.by), row.req)
			if err == nil {
				t.Errorf("%s was accepted", name)
				continue
			}
			wantFields(t, wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400), row.field)
		}
	}, withEvents)
}

// overVirtualTeams runs a scenario twice in virtual time: over gRPC and over REST. Each run has a new stack with a shared API
// key and the caller "shop", which is passed to the scenario. The functions in change modify the stack's options.
func overVirtualTeams(t *testing.T, scenario func(t *testing.T, s *stack, c caller), change ...func(*options)) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sharedStack(t, []string{"shop"}, append(change, withEvents, func(o *options) { o.memory, o.sandbox.Speed = true, 0.0001 })...)
				scenario(t, s, form(s, "shop"))
			})
		})
	}
}

func TestResumeTokenExpiresWhenEventsAreDeleted(t *testing.T) {
	t.Parallel()
	tokens := map[string]string{} // latest resume token by protocol; each protocol has its own ledger
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			url := sqliteLedger(t)
			s := ledgerStack(t, url, []string{"shop"}, withEvents, func(o *options) { o.sandbox.Speed = 0.01 })
			c := form(s, "shop")
			_, early := eventsOf(t, c, &easelv1.WatchEventsRequest{})
			failedOrder(s, c, "a")
			_, late := eventsOf(t, c, sinceTheBeginning())
			for form, token := range tokens {
				if _, _, err := caughtUp(t, c, &easelv1.WatchEventsRequest{ResumeToken: token}); err == nil {
					t.Errorf("the token of the %s ledger was accepted", form)
				} else {
					wantStatus(t, err, codes.OutOfRange, "RESUME_TOKEN_EXPIRED", 400)
				}
			}
			tokens[name] = late
			forget(s, url)
			began := time.Now()
			b := failedOrder(s, c, "b")
			_, _, err := caughtUp(t, c, &easelv1.WatchEventsRequest{ResumeToken: early})
			info, _ := detailOf[*errdetails.ErrorInfo](t, wantStatus(t, err, codes.OutOfRange, "RESUME_TOKEN_EXPIRED", 400))
			oldest, err := time.Parse(time.RFC3339Nano, info.GetMetadata()["oldest_time"])
			if err != nil || began.Sub(oldest) > time.Second {
				t.Errorf("the oldest event has the time %v: %v", oldest, err)
			}
			if ids, _ := eventsOf(t, c, &easelv1.WatchEventsRequest{ResumeToken: late}); !slices.Equal(ids, []string{b}) {
				t.Errorf("after the deleted event, the events are %q", ids)
			}
		})
	}
}

// forget deletes all events from a SQLite ledger. It first sets their times to 1970, so that they have expired.
func forget(s *stack, url string) {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:")+"?_pragma=busy_timeout(5000)")
	if err == nil {
		defer db.Close()
		_, err = db.ExecContext(s.Context(), `UPDATE events SET event_time = 1`)
	}
	if err == nil {
		err = s.ledger.ForgetEvents(s.Context())
	}
	if err != nil {
		s.Fatal(err)
	}
}

func TestEventStreamHeartbeatsCarryResumeToken(t *testing.T) {
	overVirtualTeams(t, func(t *testing.T, s *stack, c caller) {
		var token string
		var beats []time.Time
		err := c.events(t.Context(), &easelv1.WatchEventsRequest{HeartbeatInterval: durationpb.New(2 * time.Second)}, func(m *easelv1.WatchEventsResponse) bool {
			if token = m.GetResumeToken(); m.GetHeartbeat() != nil {
				beats = append(beats, time.Now())
			}
			return len(beats) < 5
		})
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(beats) - 1 {
			if gap := beats[n+1].Sub(beats[n]); gap != 2*time.Second {
				t.Errorf("got %v between two heartbeats, want 2 s", gap)
			}
		}
		id := failedOrder(s, c, "a")
		if ids, _ := eventsOf(t, c, &easelv1.WatchEventsRequest{ResumeToken: token}); !slices.Equal(ids, []string{id}) {
			t.Errorf("after a heartbeat's token, the events are %q", ids)
		}
	})
}

func TestEventStreamReportsItsClosingReason(t *testing.T) {
	const age = time.Minute
	for reason, row := range map[string]struct {
		closing easelv1.StreamClosingReason
		end     func(s *stack)
	}{
		"SERVER_DRAINING": {easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING, func(s *stack) { s.stop() }},
		"STREAM_MAX_AGE":  {easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE, func(*stack) {}},
	} {
		t.Run(reason, func(t *testing.T) {
			overVirtualTeams(t, func(t *testing.T, s *stack, c caller) {
				var last *easelv1.WatchEventsResponse
				began := time.Now()
				err := c.events(t.Context(), &easelv1.WatchEventsRequest{}, func(m *easelv1.WatchEventsResponse) bool {
					if last = m; m.GetCaughtUp() != nil {
						row.end(s)
					}
					return true
				})
				st := wantStatus(t, err, codes.Unavailable, reason, 200)
				if last.GetClosing().GetReason() != row.closing || retryDelay(st) == 0 || last.GetResumeToken() == "" || time.Since(began) > age {
					t.Errorf("after %v the last message is %v, and the error %v", time.Since(began), last, st)
				}
			}, func(o *options) { o.service.MaxStreamAge = age })
		})
	}
}

func TestRestartedConsumerReceivesEventsOfEachRenderInOrder(t *testing.T) {
	t.Parallel()
	const orders = 334 // the consumer must receive about 1,000 events, because each order causes three
	s := ledgerStack(t, sqliteLedger(t), []string{"shop"}, withEvents, func(o *options) { o.sandbox.Speed = 0.01 })
	c := grpcCaller{s, "shop"}
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for n := range orders {
			id := failedOrder(s, c, fmt.Sprint(n))
			recordState(s, id, lifecycle.Observation{Status: lifecycle.Refunded})
			recordState(s, id, isDeleted)
		}
	})
	random := rand.New(rand.NewPCG(51, 51)) //nolint:gosec // a fixed seed, so that each run makes the same choices
	req := sinceTheBeginning()
	seen, ids, repeated := map[string][]string{}, map[string]bool{}, 0
	ctx, leave := context.WithTimeout(t.Context(), 10*time.Minute) // a busy machine needs about a minute
	defer leave()
	for len(ids) < 3*orders {
		left := random.IntN(40)
		err := c.events(ctx, req, func(m *easelv1.WatchEventsResponse) bool {
			if e := m.GetEvent(); ids[e.GetEventId()] {
				repeated++
			} else if e != nil {
				ids[e.GetEventId()] = true
				id := e.GetGeneration().GetGenerationId()
				seen[id] = append(seen[id], strings.TrimPrefix(e.GetType(), "easel.generation."))
			}
			if left--; left < 0 && random.IntN(2) == 0 {
				return false // simulates a reader that was killed before it stored the resume token
			}
			req = &easelv1.WatchEventsRequest{ResumeToken: m.GetResumeToken()}
			return left >= 0 && len(ids) < 3*orders
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 3*orders || repeated == 0 {
		t.Errorf("the consumer received %d different events and %d repetitions", len(ids), repeated)
	}
	for id, types := range seen {
		if strings.Join(types, " ") != "failed refunded deleted" {
			t.Errorf("the events of %s are %q", id, types)
		}
	}
}
