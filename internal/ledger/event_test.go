package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// outbox tells of everybody, of the studio's budgets too.
func outbox(limits ledger.Limits) *ledger.Outbox {
	return &ledger.Outbox{
		Teams: func() map[string]ledger.Team { return map[string]ledger.Team{"studio": {Limits: limits}} },
		Generation: func(o ledger.Order, text *string) string {
			return fmt.Sprintf("%s %v %v %s %s", o.Generation, o.Status, o.IsGone(), o.Labels["job"], *text)
		},
		Budget: func(b ledger.Budget) string { return fmt.Sprint(b.Period, b.SpentCents, b.ReservedCents, b.LimitCents) },
	}
}

func openTelling(t *testing.T, url string, o *ledger.Outbox) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: theCatalog, ResendWindow: window, RefundWindow: time.Hour, Outbox: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// events are all that were written, the oldest first, in short.
func events(t *testing.T, l *ledger.Ledger) (all []string) {
	t.Helper()
	found, err := l.Events(t.Context(), ledger.EventFilter{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, e := range slices.Backward(found) {
		all = append(all, strings.TrimPrefix(e.Type, "easel.")+": "+e.Data)
		ids[e.ID] = true
	}
	if len(ids) != len(found) {
		t.Errorf("%d events have %d ids", len(found), len(ids))
	}
	return all
}

func observe(t *testing.T, l *ledger.Ledger, generation string, all ...lifecycle.Observation) {
	t.Helper()
	for _, seen := range all {
		if _, err := l.Observe(t.Context(), generation, ledger.Observation{Observation: seen, Text: new("a haiku")}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatBecomesOfAnOrderIsWrittenAsEvents(t *testing.T) {
	type saw = lifecycle.Observation
	for name, row := range map[string]struct {
		seen      []saw
		published []string
	}{
		"it has succeeded":                     {[]saw{{Status: lifecycle.Queued}, {Status: lifecycle.Running}, {Status: lifecycle.Succeeded}}, []string{"generation.succeeded: g1 succeeded false 7 a haiku"}},
		"it is seen again":                     {[]saw{{Status: lifecycle.Succeeded}, {Status: lifecycle.Succeeded}, {Status: lifecycle.Queued}}, []string{"generation.succeeded: g1 succeeded false 7 a haiku"}},
		"it was refunded":                      {[]saw{{Status: lifecycle.Failed}, {Status: lifecycle.Refunded}, {Status: lifecycle.Failed}}, []string{"generation.failed: g1 failed false 7 a haiku", "generation.refunded: g1 refunded false 7 a haiku"}},
		"it was refunded after a success":      {[]saw{{Status: lifecycle.Succeeded}, {Status: lifecycle.Refunded}, {Status: lifecycle.Refunded}}, []string{"generation.succeeded: g1 succeeded false 7 a haiku", "generation.refunded: g1 succeeded false 7 a haiku"}},
		"nobody saw it fail":                   {[]saw{{Status: lifecycle.Refunded}}, []string{"generation.refunded: g1 refunded false 7 a haiku"}},
		"it was deleted":                       {[]saw{{Status: lifecycle.Succeeded}, {Deleted: true}, {Deleted: true}}, []string{"generation.succeeded: g1 succeeded false 7 a haiku", "generation.deleted: g1 succeeded true 7 a haiku"}},
		"it was deleted before anybody saw it": {[]saw{{Deleted: true}}, []string{"generation.deleted: g1 placed true 7 a haiku"}},
		"its end is recorded late":             {[]saw{{Deleted: true}, {Status: lifecycle.Succeeded}}, []string{"generation.deleted: g1 placed true 7 a haiku", "generation.succeeded: g1 succeeded false 7 a haiku"}},
		"it is not visible yet":                {[]saw{{NotFound: true}}, nil},
		"it runs":                              {[]saw{{Status: lifecycle.Queued}, {Status: lifecycle.Running}, {}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				l := openTelling(t, url, outbox(ledger.Limits{}))
				conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
				observe(t, l, "g1", row.seen...)
				if got := events(t, l); !slices.Equal(got, row.published) {
					t.Errorf("published are %q, want %q", got, row.published)
				}
			})
		})
	}
}

// A replica may have an older callers file, that notifies nobody: another replica sends the event.
func TestEveryStateIsWrittenWhoeverIsTold(t *testing.T) { // M5
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, outbox(ledger.Limits{DailyCents: cents(11)}))
		r := request("k")
		r.Owner, r.Namespace, r.Limits = "print", "print", ledger.Limits{DailyCents: cents(22)}
		conclude(t, l, write(t, l, r), lifecycle.Named, "g1")
		observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Succeeded})
		if owners, err := l.DueEventOwners(t.Context(), []string{"print", "studio"}); err != nil || !slices.Equal(owners, []string{"print"}) {
			t.Errorf("due are those of %q, %v", owners, err)
		}
		if owners, err := l.DueEventOwners(t.Context(), []string{"studio"}); err != nil || len(owners) > 0 {
			t.Errorf("where the team is not notified, due are those of %q, %v", owners, err)
		}
	})
}

func TestNothingIsWrittenWhereNobodyCanBeTold(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		for name, forwarded := range map[string]bool{"without teams": false, "of a forwarded API key": true} {
			o := outbox(ledger.Limits{})
			if !forwarded {
				o = nil
			}
			l, r := openTelling(t, url, o), request(name)
			if forwarded {
				r.Owner, r.Namespace = r.APIKey, r.APIKey
			}
			conclude(t, l, write(t, l, r), lifecycle.Named, name)
			observe(t, l, name, lifecycle.Observation{Status: lifecycle.Succeeded})
			if got := events(t, l); len(got) > 0 || len(l.Written()) > 0 {
				t.Errorf("%s published are %q", name, got)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// An event that was never tried goes after a day. One that was sent or tried stays.
func TestEventsOfNobodyAreForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, outbox(ledger.Limits{}))
		for _, owner := range []string{"studio", "print"} {
			r := request("k")
			r.Owner, r.Namespace, r.Caller = owner, owner, owner
			conclude(t, l, write(t, l, r), lifecycle.Named, owner)
			observe(t, l, owner, lifecycle.Observation{Status: lifecycle.Succeeded})
		}
		if got, err := l.TakeDuty(t.Context(), ledger.TellingDuty("studio"), "a process", ledger.ClaimTime); err != nil || !got {
			t.Fatal(got, err)
		}
		if sum, err := l.Summary(t.Context(), true); err != nil || len(sum.Events) != 1 || sum.Events[0].Owner != "studio" {
			t.Errorf("in sum they are %+v, %v", sum.Events, err)
		}
		for _, hours := range []int{23, 2} {
			l.Exec(t, fmt.Sprintf("UPDATE events SET begin_time = begin_time - %[1]d, next_time = next_time - %[1]d, event_time = event_time - %[1]d", hours*3600e6))
			if err := l.ForgetEvents(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := events(t, l); len(got) != map[int]int{23: 2, 2: 1}[hours] {
				t.Errorf("%d hours later there are %q", hours, got)
			}
		}
		abandoned := func() []string {
			owners, err := l.AbandonedEventOwners(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return owners
		}
		if owners := abandoned(); len(owners) > 0 {
			t.Errorf("while somebody sends it, %q are given up", owners)
		}
		l.Exec(t, "UPDATE duties SET claimed_until = claimed_until - 90000000000")
		if owners := abandoned(); !slices.Equal(owners, []string{"studio"}) {
			t.Errorf("given up are %q", owners)
		}
	})
}

func TestAThresholdOfABudgetIsToldOnceInItsWindow(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		limits := ledger.Limits{DailyCents: cents(44), MonthlyCents: cents(1000)}
		l := openTelling(t, url, outbox(limits))
		order := func(key string) {
			r := request(key)
			r.Limits = limits
			conclude(t, l, write(t, l, r), lifecycle.Uncertain, "")
		}
		order("1")
		order("2")
		order("3")
		if got := events(t, l); len(got) > 0 || len(l.Written()) > 0 {
			t.Errorf("at 75 %% published are %q", got)
		}
		order("4")
		if got := events(t, l); !slices.Equal(got, []string{"budget.threshold: day0 44 44", "budget.threshold: day0 44 44"}) && len(got) != 2 || len(l.Written()) != 1 {
			t.Errorf("at 100 %% published are %q", got)
		}
		r := request("5")
		r.Limits = limits
		if _, _, err := l.Write(t.Context(), r); err == nil {
			t.Error("the budget is passed")
		}
		if got := events(t, l); len(got) != 2 {
			t.Errorf("after a refusal published are %q", got)
		}
		l.Exec(t, "UPDATE budgets SET reserved_cents = 0")
		order("6")
		order("7")
		order("8")
		order("9")
		if got := events(t, l); len(got) != 2 {
			t.Errorf("when the share is reached again published are %q", got)
		}
		due, err := l.DueEvents(t.Context(), "studio", 10)
		if err != nil || len(due) != 1 || due[0].Percent != 80 || !strings.HasPrefix(due[0].Subject, "day.") {
			t.Errorf("due are %+v, %v", due, err)
		}
	})
}

func TestAHigherChargeReachesAThreshold(t *testing.T) { // T7
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, outbox(ledger.Limits{DailyCents: cents(20)}))
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		if got := events(t, l); len(got) > 0 {
			t.Errorf("published are %q", got)
		}
		l.Exec(t, "UPDATE orders SET cost_cents = NULL, reserved_cents = 11")
		l.Exec(t, "UPDATE budgets SET spent_cents = 0, reserved_cents = 11")
		observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Queued, CostCents: cents(17)})
		if got := events(t, l); !slices.Equal(got, []string{"budget.threshold: day17 0 20"}) {
			t.Errorf("published are %q", got)
		}
	})
}

func TestEventsOfAGenerationAreDueOneAfterTheOther(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l, ctx := openTelling(t, url, outbox(ledger.Limits{})), t.Context()
		for _, g := range []string{"g1", "g2"} {
			conclude(t, l, write(t, l, request(g)), lifecycle.Named, g)
		}
		observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Failed}, lifecycle.Observation{Status: lifecycle.Refunded})
		observe(t, l, "g2", lifecycle.Observation{Status: lifecycle.Succeeded})
		due := func() (types []string, first ledger.Event) {
			t.Helper()
			owners, err := l.DueEventOwners(ctx, []string{"print", "studio"})
			if err != nil {
				t.Fatal(err)
			}
			for _, owner := range owners {
				all, err := l.DueEvents(ctx, owner, 10)
				if err != nil {
					t.Fatal(err)
				}
				for n, e := range all {
					if n == 0 {
						first = e
					}
					types = append(types, e.Subject+" "+strings.TrimPrefix(e.Type, "easel.generation."))
				}
			}
			return types, first
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		types, failed := due()
		if !slices.Equal(types, []string{"g1 failed", "g2 succeeded"}) {
			t.Fatalf("due are %q", types)
		}
		notSent(t, l, failed.ID, false)
		if types, _ = due(); !slices.Equal(types, []string{"g2 succeeded"}) {
			t.Errorf("after a failure due are %q", types)
		}
		l.Exec(t, "UPDATE events SET next_time = next_time - 2000000, begin_time = begin_time - 3600000000")
		if types, _ = due(); len(types) != 2 {
			t.Errorf("a while later due are %q", types)
		}
		notSent(t, l, failed.ID, false)
		l.Exec(t, "UPDATE events SET next_time = next_time - 170000000")
		if types, _ = due(); !slices.Equal(types, []string{"g2 succeeded"}) {
			t.Errorf("three minutes after a failure an hour old due are %q", types)
		}
		l.Exec(t, "UPDATE events SET begin_time = begin_time - 82800000000 WHERE attempts > 0")
		notSent(t, l, failed.ID, true)
		types, refunded := due()
		if !slices.Equal(types, []string{"g2 succeeded", "g1 refunded"}) && !slices.Equal(types, []string{"g1 refunded", "g2 succeeded"}) {
			t.Fatalf("after it was given up due are %q", types)
		}
		_, err := l.TakeDuty(ctx, ledger.TellingDuty("studio"), "a process", time.Minute)
		must(err)
		must(l.Sent(ctx, refunded.ID))
		notSent(t, l, refunded.ID, false)
		if sum, err := l.Summary(ctx, true); err != nil || len(sum.Events) != 1 || sum.Events[0].Pending != 1 || sum.Events[0].GivenUp != 1 || sum.Events[0].Oldest < time.Hour {
			t.Errorf("in sum they are %+v, %v", sum.Events, err)
		}
		if given, err := l.Events(ctx, ledger.EventFilter{Owner: "studio", GivenUp: true}, 10); err != nil || len(given) != 1 || given[0].ID != failed.ID || given[0].Problem != "500" || given[0].Attempts != 3 {
			t.Errorf("given up are %+v, %v", given, err)
		}
		if n, _, err := l.Replay(ctx, ledger.EventFilter{Owner: "print"}, ledger.EventPosition{}, ledger.By{Actor: "ops"}); n != 0 || err != nil {
			t.Errorf("%d of another are sent again, %v", n, err)
		}
		if n, _, err := l.Replay(ctx, ledger.EventFilter{Owner: "studio", Since: time.Now().Add(-time.Hour)}, ledger.EventPosition{}, ledger.By{Actor: "ops"}); n != 2 || err != nil {
			t.Errorf("%d are sent again, %v", n, err)
		}
		if types, _ = due(); len(types) != 2 || !slices.Contains(types, "g1 failed") {
			t.Errorf("due again are %q", types)
		}
		l.Exec(t, "UPDATE events SET state = 1, event_time = event_time - 700000000000 WHERE subject = 'g1'")
		must(l.ForgetEvents(ctx))
		if all, err := l.Events(ctx, ledger.EventFilter{}, 10); err != nil || len(all) != 1 {
			t.Errorf("a week later there are %+v, %v", all, err)
		}
	})
}

// notSent records a failed attempt, and checks whether it was the last one.
func notSent(t *testing.T, l *ledger.Ledger, id string, last bool) {
	t.Helper()
	if givenUp, err := l.NotSent(t.Context(), id, "500"); givenUp != last || err != nil {
		t.Errorf("the event is given up: %v, %v", givenUp, err)
	}
}

// An event and its state are recorded together or not at all, whoever else records the same.
func TestOneOfManyReplicasWritesTheEvent(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, outbox(ledger.Limits{}))
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				seen := ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded}, Text: new("a haiku")}
				if _, err := l.Observe(context.WithoutCancel(t.Context()), "g1", seen); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := events(t, l); len(got) != 1 {
			t.Errorf("published are %q", got)
		}
	})
}
