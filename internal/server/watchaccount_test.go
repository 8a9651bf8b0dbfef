package server_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// accountWatch is an open watch of the account.
type accountWatch struct {
	received chan *easelv1.WatchAccountResponse
	ended    chan error
	leave    context.CancelFunc
}

func watchAccount(t *testing.T, c caller) *accountWatch {
	ctx, leave := context.WithCancel(t.Context())
	w := &accountWatch{make(chan *easelv1.WatchAccountResponse, 1000), make(chan error, 1), leave}
	go func() {
		w.ended <- c.watchAccount(ctx, &easelv1.WatchAccountRequest{HeartbeatInterval: durationpb.New(5 * time.Second)}, func(m *easelv1.WatchAccountResponse) bool {
			w.received <- m
			return true
		})
	}()
	t.Cleanup(leave)
	return w
}

// update waits for the next update.
func (w *accountWatch) update(t *testing.T) *easelv1.AccountUpdate {
	t.Helper()
	for {
		select {
		case m := <-w.received:
			if m.GetUpdate() != nil {
				return m.GetUpdate()
			}
		case err := <-w.ended:
			t.Fatalf("the watch ended with %v", err)
		}
	}
}

func TestAWatchOfTheAccountTellsTheBalanceAfterAnOrder(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		w := watchAccount(t, c)
		first := w.update(t)
		if !first.GetInitial() || first.GetAccount().GetBalanceCents() != 100_000 || first.GetAccount().GetCurrencyCode() != "EUR" || first.GetAccount().GetObserveTime() == nil {
			t.Errorf("the first update is %v", first)
		}
		began := time.Now()
		cost := create(t, c, order(t, text, "k", "a lake")).GetCostCents()
		second := w.update(t)
		if got := second.GetAccount().GetBalanceCents(); second.GetInitial() || got != 100_000-cost || cost == 0 {
			t.Errorf("after an order of %d cents the update is %v", cost, second)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("it came after %v", took)
		}
		if n := s.sandbox.Requests()["GET /me"]; n != 3 { // one has proved the API key
			t.Errorf("%d reads of the account", n)
		}
		w.leave()
		<-w.ended
		asked := s.sandbox.Requests()["GET /me"]
		time.Sleep(5 * time.Minute)
		if n := s.sandbox.Requests()["GET /me"] - asked; n != 0 {
			t.Errorf("nobody watches, and the account was read %d times", n)
		}
	})
}

func TestAWatchOfTheAccountTellsOfTroubleInHeartbeats(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		w := watchAccount(t, c)
		w.update(t)
		fault := s.sandbox.Inject(sandbox.Fault{Route: "GET /me", Status: 503})
		create(t, c, order(t, text, "k", "a lake"))
		for fault.Fired() == 0 {
			<-w.received
		}
		<-w.received
		if h := (<-w.received).GetHeartbeat(); h.GetUpstreamCondition() != easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE || h.GetConsecutivePollFailures() == 0 || h.GetLastError() == "" || h.GetNextPollTime() == nil {
			t.Errorf("in an outage it receives %v", h)
		}
		s.sandbox.ClearFaults()
		if u := w.update(t); u.GetInitial() {
			t.Errorf("after the outage it receives %v", u)
		}
		s.sandbox.Inject(sandbox.Fault{Route: "GET /me", Status: 401})
		wantStatus(t, <-w.ended, codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED", 200)
	})
}

func TestAWatchOfTheAccountClosesWhenTheServerStopsOrItIsOld(t *testing.T) {
	for name, test := range map[string]struct {
		reason easelv1.StreamClosingReason
		code   string
		stop   bool
	}{
		"drain": {easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING, "SERVER_DRAINING", true},
		"age":   {easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE, "STREAM_MAX_AGE", false},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, s *stack, c caller) {
				w := watchAccount(t, c)
				w.update(t)
				if test.stop {
					s.stop()
				}
				err := <-w.ended
				wantStatus(t, err, codes.Unavailable, test.code, 200)
				var last *easelv1.WatchAccountResponse
				for len(w.received) > 0 {
					last = <-w.received
				}
				if last.GetClosing().GetReason() != test.reason || last.GetClosing().GetRetryDelay() == nil {
					t.Errorf("the last message is %v", last)
				}
			}, func(o *options) { o.service.MaxStreamAge = time.Minute })
		})
	}
}

// writeTeam writes a callers file with one team, a neighbour and an operator.
func writeTeam(t *testing.T, file string, dailyCents int) {
	t.Helper()
	lines := fmt.Sprintf("teams:\n  studio: {budget: {daily_cents: %d}}\ncallers:\n", dailyCents)
	for name, more := range map[string]string{"shop": "team: studio", "blog": "operator: false", "ops": "operator: true"} {
		lines += fmt.Sprintf("  - {name: %s, %s, tokens: [sha256:%x]}\n", name, more, sha256.Sum256([]byte(name)))
	}
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAWatchOfTheAccountTellsATeamItsBudgetAndNoBalance(t *testing.T) {
	for form, as := range forms {
		t.Run(form, func(t *testing.T) {
			file, url := filepath.Join(t.TempDir(), "callers"), sqliteLedger(t)
			synctest.Test(t, func(t *testing.T) {
				writeTeam(t, file, 5000)
				s := heldStackFrom(t, file, func(o *options) { o.memory, o.ledger = true, url })
				team, other, ops := watchAccount(t, as(s, "shop")), watchAccount(t, as(s, "blog")), watchAccount(t, as(s, "ops"))
				for _, w := range []*accountWatch{team, other} {
					if a := w.update(t).GetAccount(); a.BalanceCents != nil || a.GetUpstreamFields() != nil || (len(a.GetBudgets()) == 1) != (w == team) {
						t.Errorf("at first it receives %v", a)
					}
				}
				if a := ops.update(t).GetAccount(); a.GetBalanceCents() != 100_000 {
					t.Errorf("at first the operator receives %v", a)
				}
				cost := create(t, as(s, "shop"), order(t, text, "k", "a lake")).GetCostCents()
				began := time.Now()
				if b := team.update(t).GetAccount().GetBudgets()[0]; b.GetSpentCents()+b.GetReservedCents() != cost || b.GetLimitCents() != 5000 || time.Since(began) > 6*time.Second {
					t.Errorf("after an order of %d cents, and %v, it receives %v", cost, time.Since(began), b)
				}
				if a := ops.update(t).GetAccount(); a.GetBalanceCents() != 100_000-cost || time.Since(began) > 11*time.Second {
					t.Errorf("after an order of %d cents, and %v, the operator receives %v", cost, time.Since(began), a)
				}
				writeTeam(t, file, 70)
				if b := team.update(t).GetAccount().GetBudgets()[0]; b.GetLimitCents() != 70 {
					t.Errorf("under a new limit it receives %v", b)
				}
				time.Sleep(5 * time.Minute)
				for len(other.received) > 0 {
					if u := (<-other.received).GetUpdate(); u != nil {
						t.Errorf("another receives %v", u)
					}
				}
				for _, w := range []*accountWatch{team, other, ops} {
					w.leave()
					<-w.ended
				}
			})
		})
	}
}
