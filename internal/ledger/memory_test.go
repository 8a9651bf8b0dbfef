package ledger_test

import (
	"context"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestPruningKeepsTheNewestOrdersOfEachOwner(t *testing.T) {
	for name, row := range map[string]struct {
		placed  []string // idempotency keys, oldest first
		refused []string
		other   string // idempotency key of another owner's order
		old     string // idempotency key of an order that is a day old
		pruned  int
		left    string
	}{
		"orders of another owner are kept":       {placed: []string{"a", "b", "c", "d"}, other: "modest", pruned: 3, left: "unknown,modest,d"},
		"rejected orders count toward the limit": {placed: []string{"placed"}, refused: []string{"first", "second"}, pruned: 1, left: "unknown,first,second"},
		"old order above the limit":              {placed: []string{"a", "b", "c", "d"}, old: "a", pruned: 2, left: "unknown,c,d"},
		"old order within the limit":             {placed: []string{"a", "b"}, old: "a", pruned: 1, left: "unknown,b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, ledger.InMemory)
			write(t, l, request("unknown")) // never pruned, because its outcome is unknown
			if row.other != "" {
				other := request(row.other)
				other.Namespace, other.Owner, other.Caller = "print", "print", "printer"
				conclude(t, l, write(t, l, other), lifecycle.Named, "g-other")
			}
			for _, key := range row.placed {
				conclude(t, l, write(t, l, request(key)), lifecycle.Named, "g-"+key)
			}
			for _, key := range row.refused {
				conclude(t, l, write(t, l, request(key)), lifecycle.TurnedAway, "")
			}
			l.Exec(t, `UPDATE orders SET order_time = order_time - 86400000000 WHERE idempotency_key IN ('unknown', '`+row.old+`')`)
			for _, want := range []int{row.pruned, 0} {
				if pruned, err := l.Prune(t.Context(), 2); err != nil || pruned != want {
					t.Errorf("%d orders pruned, want %d, %v", pruned, want, err)
				}
			}
			if labels := l.Ask(t, `SELECT COUNT(*) FROM labels WHERE order_id NOT IN (SELECT id FROM orders)`); labels != "0" {
				t.Errorf("%s labels of deleted orders are left", labels)
			}
			if left := l.Ask(t, `SELECT group_concat(idempotency_key) FROM (SELECT * FROM orders ORDER BY order_time)`); left != row.left {
				t.Errorf("the remaining orders are %s", left)
			}
		})
	}
}

func TestLateGenerationIsRecordedAfterRejectedResend(t *testing.T) {
	t.Parallel()
	l := open(t, ledger.InMemory)
	first := write(t, l, request("k"))
	l.Exec(t, `UPDATE orders SET order_time = order_time - 660000000, leased_until = 0`) // makes the order 11 minutes older, and ends its lease
	later, step := call(t, l, request("k"))
	if step.Action != lifecycle.Submit {
		t.Fatalf("the step for the repeat is %+v", step)
	}
	conclude(t, l, later, lifecycle.KeyRefused, "")
	if pruned, err := l.Prune(t.Context(), 100); err != nil || pruned != 0 {
		t.Errorf("%d orders pruned, want 0, %v", pruned, err)
	}
	if answer := conclude(t, l, first, lifecycle.Named, "g1"); answer != lifecycle.Replay {
		t.Errorf("recording the generation of the first attempt returns %v", answer)
	}
}

func TestRejectedOrdersAreDeletedAfterADay(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("placed")), lifecycle.Named, "g1")
		for _, key := range []string{"refused", "called refused"} {
			conclude(t, l, write(t, l, request(key)), lifecycle.TurnedAway, "")
		}
		l.Exec(t, `UPDATE orders SET resolved = 1 WHERE idempotency_key = 'called refused'`)
		if labels := l.Ask(t, `SELECT COUNT(*) FROM labels WHERE order_id IN (SELECT id FROM orders WHERE state = 3)`); labels != "0" {
			t.Errorf("%s labels of rejected orders are kept", labels)
		}
		for _, step := range []struct {
			age   string
			want  int
			later string
		}{{"86300000000", 0, "younger than a day"}, {"200000000", 1, "older than a day"}} {
			l.Exec(t, `UPDATE orders SET order_time = order_time - `+step.age)
			if forgotten, err := l.ForgetRefused(t.Context()); err != nil || forgotten != step.want {
				t.Errorf("%d rejected orders that are %s were deleted, %v", forgotten, step.later, err)
			}
		}
		if left := l.Ask(t, `SELECT MIN(idempotency_key) || ', ' || MAX(idempotency_key) || ' of ' || COUNT(*) FROM orders`); left != "called refused, placed of 2" {
			t.Errorf("the remaining orders are %s", left)
		}
	})
}

func TestADurableLedgerIsNotPruned(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		if pruned, err := l.Prune(t.Context(), 0); err != nil || pruned != 0 || !l.IsDurable() {
			t.Errorf("%d orders pruned, want 0 in a durable ledger, %v", pruned, err)
		}
	})
}

func TestInMemoryLedgerSurvivesCanceledCalls(t *testing.T) {
	t.Parallel()
	l := open(t, ledger.InMemory)
	conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
	for range 20 { // repeated, because only some canceled calls make the driver close its connection
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, _, _ = l.Write(ctx, request("cut off"))
	}
	wantAnswer(t, l, request("k"), lifecycle.Replay, "the step for an order")
	if l.IsDurable() {
		t.Error("a ledger in memory reports that it is durable")
	}
}
