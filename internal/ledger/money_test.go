package ledger_test

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func cents(n int64) *int64 { return &n }

func TestTheBudgetFollowsTheMoneyOfAnOrder(t *testing.T) { // T6, T7
	type saw = ledger.Observation
	for name, row := range map[string]struct {
		seen            []saw
		spent, reserved int64
	}{
		"nothing is known yet":                     {nil, 0, 11},
		"it has cost more than it was quoted for":  {[]saw{{Status: ledger.Queued, CostCents: cents(13)}}, 13, 0},
		"the first charge stays":                   {[]saw{{Status: ledger.Queued, CostCents: cents(13)}, {Status: ledger.Running, CostCents: cents(99)}}, 13, 0},
		"it has failed":                            {[]saw{{Status: ledger.Failed, CostCents: cents(9)}}, 9, 0},
		"it was refunded":                          {[]saw{{Status: ledger.Failed, CostCents: cents(9)}, {Status: ledger.Refunded, CostCents: cents(9)}}, 0, 0},
		"it was refunded, and nobody saw a price":  {[]saw{{Status: ledger.Refunded}}, 0, 0},
		"a late price of what was refunded":        {[]saw{{Status: ledger.Refunded}, {Status: ledger.Refunded, CostCents: cents(9)}}, 0, 0},
		"a refund that comes after all is settled": {[]saw{{Status: ledger.Failed, CostCents: cents(9), Settled: true}, {Status: ledger.Refunded, CostCents: cents(9)}}, 0, 0},
		"it has succeeded without a price":         {[]saw{{Status: ledger.Succeeded, Settled: true}}, 11, 0},
		"its price comes after all":                {[]saw{{Status: ledger.Succeeded, Settled: true}, {Status: ledger.Succeeded, CostCents: cents(9), Settled: true}}, 9, 0},
		"it was deleted before it had a price":     {[]saw{{Status: ledger.Queued, Deleted: true, Settled: true}}, 11, 0},
		"an old state comes after a newer one":     {[]saw{{Status: ledger.Refunded, CostCents: cents(9)}, {Status: ledger.Failed, CostCents: cents(9), Settled: true}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				l := open(t, url)
				o := write(t, l, request("k"))
				if _, err := l.Conclude(t.Context(), o.ID, 1, lifecycle.Named, "g1", nil); err != nil {
					t.Fatal(err)
				}
				for _, seen := range row.seen {
					if err := l.Observe(t.Context(), "g1", seen); err != nil {
						t.Fatal(err)
					}
				}
				budgets, err := l.Budgets(t.Context(), "studio", ledger.Limits{DailyCents: cents(100), MonthlyCents: cents(1000)})
				if err != nil || len(budgets) != 2 {
					t.Fatalf("%d budgets, %v", len(budgets), err)
				}
				for _, b := range budgets {
					if b.SpentCents != row.spent || b.ReservedCents != row.reserved || !b.Start.Before(b.Reset) {
						t.Errorf("%d spent, %d reserved of the %s: %+v", b.SpentCents, b.ReservedCents, b.Period, b)
					}
				}
			})
		})
	}
}

func TestAGenerationOfSomebodyElseIsNotFound(t *testing.T) { // T2
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		if own, err := l.Own(t.Context(), new("studio"), "g1", "g2"); len(own) != 1 || err != nil || own["g1"].Caller != "poster-service" {
			t.Errorf("one's own is %+v, %v", own, err)
		}
		for owner, generation := range map[string]string{"print": "g1", "studio": "g2"} {
			if own, err := l.Own(t.Context(), &owner, generation); len(own) != 0 || err != nil {
				t.Errorf("%s of %s is %+v, %v", generation, owner, own, err)
			}
		}
	})
}

func TestWhatNobodyLooksAtIsLookedAtInTurn(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for _, g := range []string{"g1", "g2", "g3"} {
			conclude(t, l, write(t, l, request(g)), lifecycle.Named, g)
		}
		for _, g := range []string{"g2", "g1"} {
			if err := l.Observe(t.Context(), g, ledger.Observation{Status: ledger.Failed, Settled: g == "g1"}); err != nil {
				t.Fatal(err)
			}
		}
		all, err := l.Unsettled(t.Context(), 0, 10)
		if err != nil || len(all) != 2 || all[0] != "g3" || all[1] != "g2" {
			t.Errorf("unsettled are %v, %v", all, err)
		}
		if late, err := l.Unsettled(t.Context(), time.Hour, 10); err != nil || len(late) != 1 || late[0] != "g3" {
			t.Errorf("not looked at for an hour are %v, %v", late, err)
		}
	})
}
