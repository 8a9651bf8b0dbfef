package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func cents(n int64) *int64 { return &n }

// A test in package lifecycle checks the amounts for every sequence of observations. This test checks that budgets
// contain the resulting amounts.
func TestBudgetMatchesChargesAndRefundsOfOrder(t *testing.T) {
	type saw = lifecycle.Observation
	for name, row := range map[string]struct {
		seen            []saw
		spent, reserved int64
	}{
		"no observation":                                {nil, 0, 11},
		"charge above the reserved price":               {[]saw{{Status: lifecycle.Queued, CostCents: cents(13)}}, 13, 0},
		"charge of 0 before the end":                    {[]saw{{Status: lifecycle.Queued, CostCents: cents(0)}}, 0, 11},
		"charge below the reserved price":               {[]saw{{Status: lifecycle.Queued, CostCents: cents(4)}}, 4, 7},
		"several charges, the highest counts":           {[]saw{{Status: lifecycle.Queued, CostCents: cents(13)}, {Status: lifecycle.Running, CostCents: cents(99)}, {Status: lifecycle.Succeeded, CostCents: cents(13)}}, 99, 0},
		"success without a charge in a list":            {[]saw{{Status: lifecycle.Queued, CostCents: cents(0)}, {Status: lifecycle.Succeeded}}, 0, 11},
		"outdated failure after a refund":               {[]saw{{Status: lifecycle.Refunded, CostCents: cents(9)}, {Status: lifecycle.Failed, CostCents: cents(9)}}, 0, 0},
		"failure and refund":                            {[]saw{{Status: lifecycle.Failed, CostCents: cents(9)}, {Status: lifecycle.Refunded, CostCents: cents(9)}}, 0, 0},
		"refund after a success":                        {[]saw{{Status: lifecycle.Succeeded, CostCents: cents(9)}, {Status: lifecycle.Refunded, CostCents: cents(9)}}, 0, 0},
		"success without a charge in a complete record": {[]saw{{Status: lifecycle.Succeeded, Whole: true}}, 11, 0},
		"deletion before a charge":                      {[]saw{{Status: lifecycle.Queued, Deleted: true}}, 11, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				l := open(t, url)
				o := write(t, l, request("k"))
				if _, err := l.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "g1"}); err != nil {
					t.Fatal(err)
				}
				for _, seen := range row.seen {
					observe(t, l, "g1", seen)
				}
				budgets, err := l.Budgets(t.Context(), "studio", ledger.Limits{DailyCents: cents(100), MonthlyCents: cents(1000)})
				if err != nil || len(budgets) != 2 {
					t.Fatalf("got %d budgets, want 2, %v", len(budgets), err)
				}
				for _, b := range budgets {
					if b.SpentCents != row.spent || b.ReservedCents != row.reserved || !b.Start.Before(b.Reset) {
						t.Errorf("%d cents spent and %d cents reserved in the %s: %+v", b.SpentCents, b.ReservedCents, b.Period, b)
					}
				}
			})
		})
	}
}

func TestFirstChargeAboveReservationIsReported(t *testing.T) {
	type saw = lifecycle.Observation
	for name, row := range map[string]struct {
		reserved int64
		answered *int64
		seen     []saw
		exceeded []int64
	}{
		"charge above the price, repeated":                         {11, nil, []saw{{Status: lifecycle.Queued}, {Status: lifecycle.Running, CostCents: cents(13)}, {Status: lifecycle.Succeeded, CostCents: cents(13)}}, []int64{0, 11, 0}},
		"charge above the price, with its refund":                  {11, nil, []saw{{Status: lifecycle.Refunded, CostCents: cents(13)}}, []int64{11}},
		"charge above the price, after a success without a charge": {11, nil, []saw{{Status: lifecycle.Succeeded}, {Status: lifecycle.Succeeded, CostCents: cents(13)}}, []int64{0, 11}},
		"charge equal to the price":                                {11, nil, []saw{{Status: lifecycle.Queued, CostCents: cents(11)}}, []int64{0}},
		"charge above the price, after a lower charge":             {11, nil, []saw{{Status: lifecycle.Queued, CostCents: cents(9)}, {Status: lifecycle.Running, CostCents: cents(13)}, {Status: lifecycle.Running, CostCents: cents(17)}}, []int64{0, 11, 0}},
		"charge above the price in the response to the order":      {11, cents(13), []saw{{Status: lifecycle.Queued, CostCents: cents(13)}}, []int64{0}},
		"no reserved price":                                        {0, nil, []saw{{Status: lifecycle.Queued, CostCents: cents(13)}}, []int64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				l, r := open(t, url), request("k")
				r.PriceCents = row.reserved
				if _, err := l.Conclude(t.Context(), write(t, l, r).ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "g1", CostCents: row.answered}); err != nil {
					t.Fatal(err)
				}
				for n, seen := range row.seen {
					if got, err := l.Observe(t.Context(), "g1", ledger.Observation{Observation: seen}); err != nil || got != (ledger.Effect{ExceededCents: row.exceeded[n]}) {
						t.Errorf("observation %d returns %+v, %v", n, got, err)
					}
				}
			})
		})
	}
}

func TestGenerationOfAnotherOwnerIsNotFound(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		if own, err := l.Own(t.Context(), new("studio"), "g1", "g2"); len(own) != 1 || err != nil || own["g1"].Caller != "poster-service" {
			t.Errorf("the owner's orders are %+v, %v", own, err)
		}
		for owner, generation := range map[string]string{"print": "g1", "studio": "g2"} {
			if own, err := l.Own(t.Context(), &owner, generation); len(own) != 0 || err != nil {
				t.Errorf("%s is found for the owner %s: %+v, %v", generation, owner, own, err)
			}
		}
	})
}

func TestLookupAccepts70000GenerationIDs(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		all := append(slices.Repeat([]string{"g2"}, 70_000), "g1") // more IDs than a query can have parameters
		if own, err := l.Own(t.Context(), nil, all...); len(own) != 1 || err != nil {
			t.Errorf("a long list of IDs returns %+v, %v", own, err)
		}
	})
}

func TestLeastRecentlyObservedGenerationIsDueFirst(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for _, g := range []string{"g1", "g2", "g3"} {
			conclude(t, l, write(t, l, request(g)), lifecycle.Named, g)
		}
		for _, g := range []string{"g2", "g1"} {
			observe(t, l, g, lifecycle.Observation{Status: map[string]lifecycle.Status{"g1": lifecycle.Succeeded, "g2": lifecycle.Running}[g], Whole: true})
		}
		if all, err := l.Due(t.Context(), 0, 10); err != nil || len(all) != 0 {
			t.Errorf("generations that the catalog need not return yet are due: %v, %v", all, err)
		}
		l.Exec(t, "UPDATE orders SET order_time = order_time - 60000000, placed_time = placed_time - 60000000")
		if all, err := l.Due(t.Context(), 0, 10); err != nil || len(all) != 2 || all[0].Generation != "g3" || all[1].Generation != "g2" {
			t.Errorf("the unsettled generations are %v, %v", all, err)
		}
		if late, err := l.Due(t.Context(), time.Hour, 10); err != nil || len(late) != 1 || late[0].Generation != "g3" {
			t.Errorf("the generations without an observation for an hour are %v, %v", late, err)
		}
		l.Exec(t, "UPDATE orders SET order_time = order_time - 100000000000, placed_time = placed_time - 100000000000")
		if daily, err := l.Due(t.Context(), 0, 10); err != nil || len(daily) != 1 || daily[0].Generation != "g3" {
			t.Errorf("after a day the due generations are %v, %v", daily, err)
		}
	})
}

func TestAFailureIsSettledWhenItsRefundWindowIsOver(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openWith(t, ledger.Config{URL: url, RefundWindow: 10 * time.Minute})
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		for _, settled := range []bool{false, true} {
			observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Failed, CostCents: cents(9)})
			if o := orderOfGeneration(t, l, "g1"); o.Settled != settled || (o.UnconfirmedCents == 9) != settled {
				t.Errorf("the order is settled: %v; its amounts are %+v", o.Settled, o.Money)
			}
			l.Exec(t, "UPDATE orders SET failed_time = failed_time - 600000000")
		}
	})
}

// A generation counts as deleted only if reads return 404 for long enough. A single 404 does not prove a deletion.
// It may come from a proxy, or from a read under another account's API key.
func TestGenerationCountsAsDeletedAfterRepeatedNotFound(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		late := write(t, l, request("k"))
		l.Exec(t, "UPDATE orders SET order_time = order_time - 3600000000") // makes the order an hour older, so its outcome is recorded late
		conclude(t, l, late, lifecycle.Named, "g1")
		if all, err := l.Due(t.Context(), 0, 10); err != nil || len(all) != 0 {
			t.Errorf("generations that the catalog need not return yet are due: %v, %v", all, err)
		}
		notFound, alive := lifecycle.Observation{NotFound: true, Witnessed: true}, lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9)}
		look := func(when string, seen lifecycle.Observation, seconds int, apiKey string, deleted bool) {
			t.Helper()
			l.Exec(t, fmt.Sprintf("UPDATE orders SET placed_time = placed_time - %d, absent_time = CASE absent_time WHEN 0 THEN 0 ELSE absent_time - %d END", seconds*1e6, seconds*1e6))
			if _, err := l.Observe(t.Context(), "g1", ledger.Observation{Observation: seen, APIKey: apiKey}); err != nil {
				t.Fatal(err)
			}
			if o := orderOfGeneration(t, l, "g1"); o.IsDeleted() != deleted || o.Settled != (deleted || o.Status == lifecycle.Succeeded) {
				t.Errorf("%s: %+v", when, o)
			}
		}
		unseen := lifecycle.Observation{NotFound: true}
		look("soon after the order", notFound, 0, "", false)
		look("later", notFound, 60, "", false)
		look("50 seconds later", notFound, 50, "", false)
		look("under another API key", notFound, 50, "another", false)
		look("without another successful read", unseen, 50, "", false)
		look("after more than a minute", notFound, 20, "", true)
		if o := orderOfGeneration(t, l, "g1"); o.UnconfirmedCents != 11 {
			t.Errorf("the amounts of the missing generation are %+v", o.Money)
		}
		look("found again", alive, 60, "", false)
		look("not found again", notFound, 60, "", false)
		look("not found for another minute", notFound, 61, "", true)
		look("found once more", alive, 60, "", false)
		look("deleted by a call", lifecycle.Observation{Deleted: true}, 60, "", true)
		look("outdated record in a list", alive, 60, "", true)
	})
}
