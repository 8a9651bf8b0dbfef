package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// labeledRequest returns a request for an order whose label "project" has the given value. daily is the daily budget of
// this value, in cents.
func labeledRequest(key, project string, daily int64) ledger.Request {
	r := request(key)
	r.Labels = map[string]string{"project": project, "job": "7"}
	r.LabelLimits = map[string]ledger.Limits{"project": {DailyCents: &daily}}
	return r
}

// wantNoDifference checks that the ledger is consistent with its journal.
func wantNoDifference(t *testing.T, url string) {
	t.Helper()
	if _, differences := verify(t, url); len(differences) > 0 {
		t.Error(differences)
	}
}

func TestLabelBudgetIsNeverExceeded(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		placed, rejected := writeConcurrently(t, open(t, url), url, 40, func(n int) ledger.Request {
			return labeledRequest(fmt.Sprint("k", n), []string{"apollo", "gemini"}[n%2], 40)
		})
		if placed != 6 || len(rejected) != 34 {
			t.Errorf("%d orders of 11 cents are placed for two projects with 40 cents each, and %d are rejected", placed, len(rejected))
		}
		for _, full := range rejected {
			if full.Total || full.Period != "day" || full.PriceCents != 11 || full.RemainingCents != 7 || !slices.Contains([]string{"project=apollo", "project=gemini"}, full.Label) {
				t.Errorf("the rejection is %+v", full)
			}
		}
		wantNoDifference(t, url)
	})
}

func TestRefundOrRejectionReleasesLabelBudget(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, l *ledger.Ledger, o ledger.Order){
		"after a refund": func(t *testing.T, l *ledger.Ledger, o ledger.Order) {
			conclude(t, l, o, lifecycle.Named, "g1")
			observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Failed, CostCents: cents(9)}, lifecycle.Observation{Status: lifecycle.Refunded, CostCents: cents(9)})
		},
		"after a rejection": func(t *testing.T, l *ledger.Ledger, o ledger.Order) {
			conclude(t, l, o, lifecycle.TurnedAway, "")
		},
		"after an operator's decision": func(t *testing.T, l *ledger.Ledger, o ledger.Order) {
			conclude(t, l, o, lifecycle.Uncertain, "")
			resolve(t, l, o, "another API key", ledger.Resolution{By: ada})
		},
		"after the order was erased": func(t *testing.T, l *ledger.Ledger, o ledger.Order) {
			conclude(t, l, o, lifecycle.Named, "g1")
			observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9)})
			if n, err := l.Erase(t.Context(), orderOfGeneration(t, l, "g1")); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if kept := l.Ask(t, "SELECT COUNT(*) FROM labels WHERE order_id = '"+o.ID+"'"); kept != "1" {
				t.Errorf("the erased order has %s labels, want 1", kept)
			}
			observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Refunded, CostCents: cents(9)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				l := open(t, url)
				o := write(t, l, labeledRequest("k", "apollo", 11))
				if _, _, err := l.Write(t.Context(), labeledRequest("too many", "apollo", 11)); err == nil {
					t.Error("an order above the budget was written")
				}
				write(t, l, labeledRequest("other", "gemini", 11))
				end(t, l, o)
				write(t, l, labeledRequest("again", "apollo", 11))
				wantNoDifference(t, url)
			})
		})
	}
}

func TestLabelBudgetsAreSeparateFromOtherBudgets(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, eventConfig(ledger.Limits{DailyCents: cents(100)}))
		r := labeledRequest("k", "apollo", 1000)
		r.Total = ledger.Limits{DailyCents: cents(22)} // enough for both orders only if each order counts once toward the total, however many labels it has
		r.LabelLimits["job"] = ledger.Limits{MonthlyCents: cents(1000)}
		write(t, l, r)
		r.IdempotencyKey = "k2"
		write(t, l, r)
		if all, err := l.Budgets(t.Context(), "studio", ledger.Limits{DailyCents: cents(100)}); err != nil || len(all) != 1 || all[0].ReservedCents != 22 {
			t.Errorf("the budgets of the team are %+v, %v", all, err)
		}
		if s, err := l.Summary(t.Context(), true); err != nil || len(s.Owners) != 1 || s.Owners[0].ReservedCents != 22 {
			t.Errorf("the summary is %+v, %v", s.Owners, err)
		}
		wantNoDifference(t, url)
		for statement, want := range map[string]string{
			"UPDATE budgets SET reserved_cents = 5 WHERE label = 'project=apollo' AND period = 'day'": "reserved amount with the label project=apollo is 5, but the journal has 22",
			"DELETE FROM budgets WHERE label = 'job=7'":                                               "reserved amount with the label job=7 is 0, but the journal has 22",
		} {
			l.Exec(t, statement)
			if _, differences := verify(t, url); !strings.Contains(strings.Join(differences, "\n"), want) {
				t.Errorf("%s: %q", statement, differences)
			}
		}
	})
}

// percentages returns the budget thresholds in an owner's events, in ascending order.
func percentages(t *testing.T, l *ledger.Ledger, owner string) (all []int64) {
	t.Helper()
	found, err := l.Events(t.Context(), ledger.EventFilter{Owner: owner}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		all = append(all, e.Percent)
	}
	slices.Sort(all)
	return all
}

func TestTeamAndTotalBudgetsHaveSeparateThresholds(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		o := eventConfig(ledger.Limits{})
		team, total := ledger.Limits{DailyCents: cents(22)}, ledger.Limits{DailyCents: cents(44)}
		o.Teams = func() map[string]ledger.Team {
			return map[string]ledger.Team{
				"studio":         {Limits: team, Thresholds: []int64{50, 100}, Subscribed: true},
				"print":          {Limits: team},
				ledger.AllOwners: {Limits: total, Thresholds: []int64{25, 75}, Subscribed: true},
			}
		}
		l := openTelling(t, url, o)
		for n, owner := range []string{"studio", "print", "studio"} {
			r := request(fmt.Sprint("k", n))
			r.Owner, r.Namespace, r.Limits, r.Total = owner, owner, team, total
			write(t, l, r)
		}
		for owner, want := range map[string][]int64{"studio": {50, 100}, "print": nil, ledger.AllOwners: {25, 75}} {
			if got := percentages(t, l, owner); !slices.Equal(got, want) {
				t.Errorf("the thresholds in the events of %s are %v, want %v", owner, got, want)
			}
		}
		if due := dueEvents(t, l, ledger.AllOwners); len(due) != 1 { // the second delivery has to wait for the first
			t.Errorf("the due deliveries of the total budget are %q, want 1", due)
		}
		l.Exec(t, "DELETE FROM jobs")
		l.Exec(t, "DELETE FROM events") // deletes the events, as the ledger itself does after seven days
		r := request("last")
		r.Owner, r.Namespace, r.Total = "shop", "shop", total
		write(t, l, r)
		if got := percentages(t, l, ledger.AllOwners); len(got) != 0 {
			t.Errorf("a threshold is reported again: %v", got)
		}
		wantNoDifference(t, url)
	})
}
