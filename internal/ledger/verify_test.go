package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// verify runs [ledger.Verify] on the ledger at url. It returns the function's result, and the reported
// differences as strings.
func verify(t *testing.T, url string) (looked ledger.Verified, differences []string) {
	t.Helper()
	looked, err := ledger.Verify(t.Context(), url, func(d ledger.Difference) { differences = append(differences, d.String()) })
	if err != nil {
		t.Fatal(err)
	}
	return looked, differences
}

// writeRandomOrder writes the order with the number n. It records a random outcome and, if the order was placed,
// random observations of its generation.
func writeRandomOrder(t *testing.T, l *ledger.Ledger, n int, random *rand.Rand) {
	t.Helper()
	r := request(fmt.Sprint("k", n))
	r.Owner, r.Namespace, r.PriceCents = fmt.Sprint("team", n%3), fmt.Sprint("team", n%3), int64(random.IntN(3)*11)
	o, generation := write(t, l, r), fmt.Sprint("g", n)
	switch random.IntN(5) {
	case 0:
		conclude(t, l, o, lifecycle.TurnedAway, "")
		return
	case 1:
		conclude(t, l, o, lifecycle.Uncertain, "")
		return
	}
	conclude(t, l, o, lifecycle.Named, generation)
	for range random.IntN(4) {
		seen := lifecycle.Observation{Status: lifecycle.Status(1 + random.IntN(5)), Deleted: random.IntN(8) == 0, Whole: random.IntN(2) == 0}
		if random.IntN(2) == 0 {
			seen.CostCents = cents(int64(random.IntN(30)))
		}
		observe(t, l, generation, seen)
	}
}

func TestTheLedgerEqualsTheSumsOfItsJournal(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		for n := range 60 {
			writeRandomOrder(t, l, n, random)
		}
		l.Exec(t, "UPDATE orders SET leased_until = 0 WHERE state = 1")
		if looked, differences := verify(t, url); len(differences) > 0 || looked.Orders < 40 || looked.Budgets != 6 {
			t.Errorf("seed %d: the verification returned %+v and the differences %s", seed, looked, strings.Join(differences, "\n"))
		}
	})
}

func TestVerifyReportsEachDifference(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("placed")), lifecycle.Named, "g1")
		refused := write(t, l, request("refused"))
		conclude(t, l, refused, lifecycle.TurnedAway, "")
		wantNoDifference(t, url)
		for _, tampered := range []struct{ statement, says string }{
			{"INSERT INTO movements SELECT order_id, 90, 1, 5, move_time, actor FROM movements WHERE kind = 2", "of studio: reserved amount is 2, but the journal has 7"},
			{"INSERT INTO movements SELECT order_id, 91, 2, 5, move_time, actor FROM movements WHERE kind = 2", "of studio: charged amount is 9, but the journal has 14"},
			{"INSERT INTO movements SELECT order_id, 92, 3, 5, move_time, actor FROM movements WHERE kind = 2 AND number < 90", "of studio: refunded amount is 0, but the journal has 5"},
			{"INSERT INTO movements VALUES ('ord_gone', 1, 1, 4, 0, '')", "order ord_gone: reserved amount is 0, but the journal has 4"},
			{"UPDATE budgets SET spent_cents = 1000 WHERE period = 'day'", "spent amount is 1000, but the journal has 9"},
			{"UPDATE budgets SET reserved_cents = 1000 WHERE period = 'month'", "reserved amount is 1000, but the journal has 2"},
			{"UPDATE budgets SET orders = 3", "number of orders is 3, but the journal has 1"},
			{"DELETE FROM budgets WHERE period = 'day'", "spent amount is 0, but the journal has 9"},
		} {
			l.Exec(t, tampered.statement)
			if _, differences := verify(t, url); !strings.Contains(strings.Join(differences, "\n"), tampered.says) {
				t.Errorf("after %s:\n%s", tampered.statement, strings.Join(differences, "\n"))
			}
		}
	})
}

func TestJournalRecordsOrderFromReservationToResolution(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		o := write(t, l, request("k"))
		conclude(t, l, o, lifecycle.Uncertain, "")
		l.Exec(t, "UPDATE orders SET leased_until = 0, order_time = order_time - 43200000000")
		for _, said := range []ledger.Resolution{{Generation: "g1", By: ledger.By{Actor: "ada"}}, {Generation: "g2", By: ledger.By{Actor: "bob"}}} {
			resolve(t, l, o, theAPIKey, said)
			observe(t, l, said.Generation, lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9)})
		}
		lines, err := l.Movements(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for n, line := range lines {
			told = append(told, strings.TrimSpace(fmt.Sprintln(line.Kind, line.Cents, line.Actor)))
			if line.Number != int64(n+1) || line.Time.IsZero() {
				t.Errorf("line %d of the journal is %+v", n, line)
			}
		}
		want := "reserve 11, resolve 0 ada, charge 9, release 11, resolve 0 bob, reserve 11 bob, charge -9 bob, charge 9, release 11"
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("the journal is\n%s\nwant\n%s", got, want)
		}
	})
}

// The constraints in the database reject each invalid state, even if a program other than Easel writes it.
func TestDatabaseConstraintsRejectInvalidStates(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		write(t, l, request("open"))
		conclude(t, l, write(t, l, request("refused")), lifecycle.TurnedAway, "")
		for constraint, statement := range map[string]string{
			"orders_state":         "UPDATE orders SET state = 4 WHERE state = 3",
			"orders_placed":        "UPDATE orders SET generation_id = NULL WHERE state = 2",
			"orders_leases":        "UPDATE orders SET leases = -1",
			"orders_inputs":        "UPDATE orders SET inputs = 'x' WHERE state = 2",
			"orders_money":         "UPDATE orders SET reserved_cents = -1 WHERE state = 1",
			"orders_refund":        "UPDATE orders SET refunded_cents = 10 WHERE state = 2",
			"orders_refused_money": "UPDATE orders SET reserved_cents = 1 WHERE state = 3",
			"orders_settled_money": "UPDATE orders SET settled = 1, reserved_cents = 1 WHERE state = 2",
			"orders_open_money":    "UPDATE orders SET status = 2 WHERE state = 1",
			"orders_status":        "UPDATE orders SET status = 6 WHERE state = 2",
			"orders_truths":        "UPDATE orders SET held = 2",
			"budgets_period":       "UPDATE budgets SET period = 'year' WHERE period = 'day'",
		} {
			if err := l.Refuse(t, statement); err == nil || !strings.Contains(err.Error(), constraint) {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
}
