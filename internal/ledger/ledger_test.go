package ledger_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

const (
	theCatalog = "https://catalog.example"
	theAPIKey  = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	window     = 12 * time.Hour
)

func open(t *testing.T, url string) *ledger.Ledger {
	t.Helper()
	return openWith(t, ledger.Config{URL: url})
}

// openWith opens a ledger of the tests' catalog. The default resend window is [window].
func openWith(t *testing.T, cfg ledger.Config) *ledger.Ledger {
	t.Helper()
	cfg.Catalog, cfg.ResendWindow = theCatalog, cmp.Or(cfg.ResendWindow, window)
	l, err := ledger.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func request(key string) ledger.Request {
	return ledger.Request{
		Namespace: "studio", Owner: "studio", Caller: "poster-service", IdempotencyKey: key, UpstreamKey: "up-" + key, APIKey: theAPIKey,
		ModelID: "studio/poster", Inputs: `{"prompt":"a"}`, Digest: "d", Labels: map[string]string{"job": "7"}, PriceCents: 11,
	}
}

// write writes the order that r describes. r's idempotency key must be unused.
func write(t *testing.T, l *ledger.Ledger, r ledger.Request) ledger.Order {
	t.Helper()
	if _, step, err := l.Call(t.Context(), r); err != nil || step.Action != lifecycle.Write {
		t.Fatalf("the step for a new idempotency key is %+v, %v", step, err)
	}
	o, free, err := l.Write(t.Context(), r)
	if err != nil || !free {
		t.Fatalf("writing the order returns %v, %v", free, err)
	}
	return o
}

func call(t *testing.T, l *ledger.Ledger, r ledger.Request) (ledger.Order, lifecycle.Step) {
	t.Helper()
	o, step, err := l.Call(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return o, step
}

// wantAction passes r to Ledger.Call, and checks the action in the returned step.
func wantAction(t *testing.T, l *ledger.Ledger, r ledger.Request, want lifecycle.Action, what string) {
	t.Helper()
	if _, step := call(t, l, r); step.Action != want {
		t.Errorf("%s: %+v", what, step)
	}
}

// wantAnswer passes r to Ledger.Call, and checks the answer in the returned step.
func wantAnswer(t *testing.T, l *ledger.Ledger, r ledger.Request, want lifecycle.Answer, what string) {
	t.Helper()
	if _, step := call(t, l, r); step.Answer != want {
		t.Errorf("%s: %+v", what, step)
	}
}

// wantNoResume checks that Resume finds no order to resend. problem is the failure message.
func wantNoResume(t *testing.T, l *ledger.Ledger, problem string) {
	t.Helper()
	if o, found, err := l.Resume(t.Context(), theAPIKey, ""); found || err != nil {
		t.Errorf("%s: %+v, %v", problem, o, err)
	}
}

// resolve applies an operator's decision to an order. The test fails if the order can't be resolved.
func resolve(t *testing.T, l *ledger.Ledger, o ledger.Order, apiKey string, decision ledger.Resolution) {
	t.Helper()
	if _, possible, err := l.Resolve(t.Context(), o.ID, apiKey, decision); !possible || err != nil {
		t.Fatalf("an operator can't resolve the order: %v, %v", possible, err)
	}
}

func conclude(t *testing.T, l *ledger.Ledger, o ledger.Order, outcome lifecycle.Outcome, generation string) lifecycle.Answer {
	t.Helper()
	cost := int64(9)
	step, err := l.Conclude(t.Context(), o.ID, o.Leases, ledger.Conclusion{Outcome: outcome, Generation: generation, CostCents: &cost, Written: &o})
	if err != nil {
		t.Fatal(err)
	}
	return step.Answer
}

func TestRepeatedRequestReturnsPlacedOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		o := write(t, l, request("k"))
		if got := conclude(t, l, o, lifecycle.Named, "g1"); got != lifecycle.Replay {
			t.Errorf("recording the generation ID returns %v", got)
		}
		again, step := call(t, l, request("k"))
		if step.Answer != lifecycle.Replay || again.Generation != "g1" || again.CostCents == nil || *again.CostCents != 9 || again.Inputs != "" {
			t.Errorf("a repeat returns %+v, %+v", again, step)
		}
		other := request("k")
		other.Digest = "other"
		wantAnswer(t, l, other, lifecycle.Reused, "another request with the same key")
		moved := request("k")
		moved.Namespace, moved.Owner = "print", "print"
		wantAnswer(t, l, moved, lifecycle.Reused, "the key of a caller that has changed teams")
		moved.Caller = "another"
		wantAction(t, l, moved, lifecycle.Write, "the key of another owner")
	})
}

func TestRejectionReleasesIdempotencyKeyAndBudget(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		r := request("k")
		r.Limits.DailyCents = cents(11)
		if got := conclude(t, l, write(t, l, r), lifecycle.TurnedAway, ""); got != lifecycle.NotPlaced {
			t.Errorf("a rejection returns %v", got)
		}
		o := write(t, l, r) // the rejected order no longer reserves the key or the money
		if o.Leases != 1 {
			t.Errorf("the new order has %d leases, want 1", o.Leases)
		}
	})
}

func TestOrderHasOneLeaseAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		first := write(t, l, request("k"))
		wantAction(t, l, request("k"), lifecycle.Wait, "the step for a second call")
		if may, _, err := l.Renew(t.Context(), first.ID, 1, theAPIKey); !may || err != nil {
			t.Errorf("the holder of the lease may not send the order: %v", err)
		}
		endLeases(t, l, url)
		second, step := call(t, open(t, url), request("k"))
		if step.Action != lifecycle.Submit || second.Leases != 2 || second.Inputs != first.Inputs {
			t.Fatalf("after the lease expired, the step for a second call is %+v, %+v", second, step)
		}
	})
}

func TestRenewedLeaseDoesNotOutlastResendWindow(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		o := write(t, l, request("k"))
		closeLedger(t, l)
		const rest = 5 * time.Second
		change(t, url, fmt.Sprint("UPDATE orders SET order_time = order_time - ", (window-rest).Microseconds()))
		if may, left, err := open(t, url).Renew(t.Context(), o.ID, 1, theAPIKey); !may || left <= 0 || left > rest || err != nil {
			t.Errorf("%v before the end of the resend window, an attempt may be sent within %v: %v, %v", rest, left, may, err)
		}
	})
}

// closeLedger closes a ledger before the end of its test.
func closeLedger(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// endLeases closes a ledger, and then ends all leases in its database. It closes the ledger first, because only one
// process at a time can open a SQLite file.
func endLeases(t *testing.T, l *ledger.Ledger, url string) {
	t.Helper()
	closeLedger(t, l)
	change(t, url, "UPDATE orders SET leased_until = 0")
}

func TestFormerLeaseHolderCannotOverwriteOutcome(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		first := write(t, l, request("k"))
		endLeases(t, l, url)
		l = open(t, url)
		second, _ := call(t, l, request("k"))
		if may, _, err := l.Renew(t.Context(), first.ID, 1, theAPIKey); may || err != nil {
			t.Errorf("the holder of an expired lease may send the order: %v, %v", may, err)
		}
		if got := conclude(t, l, first, lifecycle.TurnedAway, ""); got != lifecycle.Unknown {
			t.Errorf("a rejection under an expired lease returns %v", got)
		}
		if got := conclude(t, l, second, lifecycle.Named, "g1"); got != lifecycle.Replay {
			t.Errorf("recording the generation ID returns %v", got)
		}
		if got := conclude(t, l, first, lifecycle.TurnedAway, ""); got != lifecycle.Replay {
			t.Errorf("a rejection after the generation ID returns %v", got)
		}
		if o, _ := call(t, l, request("k")); o.Generation != "g1" {
			t.Errorf("the order is now %+v", o)
		}
	})
}

func TestOrderWithExpiredLeaseIsResumed(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		written := write(t, l, request("k"))
		wantNoResume(t, l, "an order with a lease is resumed")
		endLeases(t, l, url)
		l = open(t, url)
		if _, found, err := l.Resume(t.Context(), "another API key", ""); found || err != nil {
			t.Errorf("an order is resumed under another API key: %v", err)
		}
		o, found, err := l.Resume(t.Context(), theAPIKey, "")
		if !found || err != nil || o.ID != written.ID || o.Leases != 2 || o.UpstreamKey != "up-k" || o.Inputs != `{"prompt":"a"}` {
			t.Fatalf("the resumed order is %+v, %v, %v", o, found, err)
		}
		if got := conclude(t, l, o, lifecycle.TurnedAway, ""); got != lifecycle.Unknown {
			t.Errorf("a rejection of a repeat returns %v", got)
		}
		wantNoResume(t, l, "the order is resumed again immediately")
	})
}

func TestOrderPastResendWindowNeedsOperatorResolution(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		o := write(t, l, request("k"))
		if _, possible, err := l.Resolve(t.Context(), o.ID, theAPIKey, ledger.Resolution{Generation: "g1", By: ledger.By{Actor: "ops"}}); possible || err != nil {
			t.Errorf("an order with a lease is resolved: %v", err)
		}
		closeLedger(t, l)
		change(t, url, "UPDATE orders SET leased_until = 0, order_time = order_time - 43200000000")
		l = open(t, url)
		wantNoResume(t, l, "the order is resumed after the window")
		wantAnswer(t, l, request("k"), lifecycle.Unresolved, "the step for a repeated call")
		resolve(t, l, o, theAPIKey, ledger.Resolution{Generation: "g1", By: ledger.By{Actor: "ops"}})
		if again, step := call(t, l, request("k")); step.Answer != lifecycle.Replay || again.Generation != "g1" {
			t.Errorf("after the resolution, the step for a repeated call is %+v", step)
		}
	})
}

// writeConcurrently writes orders to the ledger from concurrent goroutines, and records them as placed. newRequest returns the
// request for an order from its number, which is from 0 to count-1. With PostgreSQL, writeConcurrently uses three replicas. It
// returns the number of placed orders, and the errors for orders that exceed a budget.
func writeConcurrently(t *testing.T, l *ledger.Ledger, url string, count int,
	newRequest func(n int) ledger.Request,
) (placed int, rejected []*ledger.BudgetError) {
	t.Helper()
	replicas := []*ledger.Ledger{l}
	if strings.HasPrefix(url, "postgres") {
		replicas = append(replicas, open(t, url), open(t, url))
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range count {
		all.Go(func() {
			l := replicas[n%len(replicas)]
			o, free, err := l.Write(t.Context(), newRequest(n))
			full, isFull := errors.AsType[*ledger.BudgetError](err)
			if err == nil && free {
				_, err = l.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "g-" + o.ID, CostCents: &o.ReservedCents})
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case isFull:
				rejected = append(rejected, full)
			case err != nil || !free:
				t.Errorf("writing an order returns %v, %v", free, err)
			default:
				placed++
			}
		})
	}
	all.Wait()
	return placed, rejected
}

func TestBudgetIsNeverExceeded(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		placed, rejected := writeConcurrently(t, open(t, url), url, 100, func(n int) ledger.Request {
			r := request(fmt.Sprint("k", n))
			r.Limits.MonthlyCents = cents(100)
			return r
		})
		if placed != 9 || len(rejected) != 91 {
			t.Errorf("%d orders of 11 cents are placed within a budget of 100 cents, and %d are rejected", placed, len(rejected))
		}
		for _, full := range rejected {
			if full.Period != "month" || full.PriceCents != 11 || full.RemainingCents >= 11 || !full.Reset.After(time.Now()) {
				t.Errorf("the rejection is %+v", full)
			}
		}
	})
}

func TestALedgerBelongsToOneCatalog(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		closeLedger(t, open(t, url))
		_, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: "https://other.example", ResendWindow: window})
		if err == nil || !strings.Contains(err.Error(), "EASEL_LEDGER_URL") || !strings.Contains(err.Error(), theCatalog) {
			t.Errorf("opening the ledger for another catalog returns %v", err)
		}
	})
}

// If Conclusion.Written is set, Conclude tries to record the outcome without reading the order's row. It must notice if
// the row has changed in the meantime.
func TestConcurrentChangeOfOrderIsDetected(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		cost := int64(9)
		named := func(o ledger.Order, generation string) (lifecycle.Step, error) {
			return l.Conclude(t.Context(), o.ID, o.Leases, ledger.Conclusion{Outcome: lifecycle.Named, Generation: generation, CostCents: &cost, Written: &o})
		}
		for _, row := range []struct {
			key       string
			meanwhile func(ledger.Order) // changes the order before the outcome is recorded
			step      lifecycle.Step
		}{
			{"unchanged", func(ledger.Order) {}, lifecycle.Step{Answer: lifecycle.Replay}},
			{"placed", func(o ledger.Order) { conclude(t, l, o, lifecycle.Named, "g placed") }, lifecycle.Step{Answer: lifecycle.Replay}},
			{"another", func(o ledger.Order) { conclude(t, l, o, lifecycle.Named, "another") }, lifecycle.Step{Answer: lifecycle.Replay, Action: lifecycle.Report}},
			{"refused", func(o ledger.Order) { conclude(t, l, o, lifecycle.TurnedAway, "") }, lifecycle.Step{Answer: lifecycle.Replay, Action: lifecycle.Report}},
		} {
			o := write(t, l, request(row.key))
			row.meanwhile(o)
			step, err := named(o, "g "+row.key)
			if err != nil || step.Action != row.step.Action || step.Answer != row.step.Answer {
				t.Errorf("%s: %+v, %v", row.key, step, err)
			}
		}
		taken := write(t, l, request("taken"))
		if _, err := named(taken, "g placed"); !errors.Is(err, ledger.ErrGenerationTaken) {
			t.Errorf("recording the generation of another order returns %v", err)
		}
		wantNoResume(t, l, "the order is resumed immediately after the rejected conclusion")
		if again, step := call(t, l, request("taken")); step.Action != lifecycle.Submit || again.Generation != "" {
			t.Errorf("after the rejected conclusion, the order and the step are %+v, %+v", again, step)
		}
	})
}

// orderOfGeneration returns the order whose generation has the given ID.
func orderOfGeneration(t *testing.T, l *ledger.Ledger, generation string) ledger.Order {
	t.Helper()
	found, err := l.Own(t.Context(), nil, generation)
	if err != nil || len(found) != 1 {
		t.Fatalf("the orders of %s are %v, %v", generation, found, err)
	}
	return found[generation]
}
