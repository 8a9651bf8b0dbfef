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

// eventConfig returns an event configuration in which the team "studio" has an event receiver and the given budget limits.
func eventConfig(limits ledger.Limits) *ledger.EventConfig {
	return &ledger.EventConfig{
		Teams: func() map[string]ledger.Team {
			return map[string]ledger.Team{"studio": {Limits: limits, Subscribed: true}}
		},
		Generation: func(o ledger.Order, text *string) string {
			return fmt.Sprintf("%s %v %v %s %s", o.Generation, o.Status, o.IsDeleted(), o.Labels["job"], *text)
		},
		Budget: func(b ledger.Budget) string { return fmt.Sprint(b.Period, b.SpentCents, b.ReservedCents, b.LimitCents) },
	}
}

func openTelling(t *testing.T, url string, o *ledger.EventConfig) *ledger.Ledger {
	t.Helper()
	return openWith(t, ledger.Config{URL: url, RefundWindow: time.Hour, Events: o})
}

// events returns each event in the ledger as a short string, oldest first.
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
		t.Errorf("%d events have only %d different IDs", len(found), len(ids))
	}
	return all
}

// takeDeliveries leases up to ten due deliveries of an owner, and returns their jobs.
func takeDeliveries(t *testing.T, l *ledger.Ledger, owner string) []ledger.Job {
	t.Helper()
	all, err := l.TakeJobs(t.Context(), ledger.DeliverJob, owner, 10)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// dueEvents returns the subject and type of each event whose delivery to an owner is due, sorted.
func dueEvents(t *testing.T, l *ledger.Ledger, owner string) (all []string) {
	t.Helper()
	for _, job := range takeDeliveries(t, l, owner) {
		e, found, err := l.Event(t.Context(), job.Ref)
		if err == nil && found {
			err = l.ReleaseJob(t.Context(), job)
		}
		if err != nil || !found || e.Subject != job.Line || e.Attempts != job.Attempts {
			t.Errorf("the job %+v does not match its event %+v, %v", job, e, err)
		}
		all = append(all, e.Subject+" "+strings.TrimPrefix(e.Type, "easel.generation."))
	}
	slices.Sort(all)
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

func TestFinalStatesAreWrittenAsEvents(t *testing.T) {
	type saw = lifecycle.Observation
	for name, row := range map[string]struct {
		seen      []saw
		published []string
	}{
		"success":                                {[]saw{{Status: lifecycle.Queued}, {Status: lifecycle.Running}, {Status: lifecycle.Succeeded}}, []string{"generation.succeeded: g1 succeeded false 7 a haiku"}},
		"repeated and outdated states":           {[]saw{{Status: lifecycle.Succeeded}, {Status: lifecycle.Succeeded}, {Status: lifecycle.Queued}}, []string{"generation.succeeded: g1 succeeded false 7 a haiku"}},
		"failure and refund":                     {[]saw{{Status: lifecycle.Failed}, {Status: lifecycle.Refunded}, {Status: lifecycle.Failed}}, []string{"generation.failed: g1 failed false 7 a haiku", "generation.refunded: g1 refunded false 7 a haiku"}},
		"refund after a success":                 {[]saw{{Status: lifecycle.Succeeded}, {Status: lifecycle.Refunded}, {Status: lifecycle.Refunded}}, []string{"generation.succeeded: g1 succeeded false 7 a haiku", "generation.refunded: g1 succeeded false 7 a haiku"}},
		"refund without an observed failure":     {[]saw{{Status: lifecycle.Refunded}}, []string{"generation.refunded: g1 refunded false 7 a haiku"}},
		"deletion after a success":               {[]saw{{Status: lifecycle.Succeeded}, {Deleted: true}, {Deleted: true}}, []string{"generation.succeeded: g1 succeeded false 7 a haiku", "generation.deleted: g1 succeeded true 7 a haiku"}},
		"deletion before any state was observed": {[]saw{{Deleted: true}}, []string{"generation.deleted: g1 placed true 7 a haiku"}},
		"success observed after the deletion":    {[]saw{{Deleted: true}, {Status: lifecycle.Succeeded}}, []string{"generation.deleted: g1 placed true 7 a haiku", "generation.succeeded: g1 succeeded false 7 a haiku"}},
		"not found":                              {[]saw{{NotFound: true}}, nil},
		"queued and running":                     {[]saw{{Status: lifecycle.Queued}, {Status: lifecycle.Running}, {}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				l := openTelling(t, url, eventConfig(ledger.Limits{}))
				conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
				observe(t, l, "g1", row.seen...)
				if got := events(t, l); !slices.Equal(got, row.published) {
					t.Errorf("the written events are %q, want %q", got, row.published)
				}
			})
		})
	}
}

// A process may record an event for an owner before it has loaded a callers file with a receiver for that owner. The
// event is then kept until a process that knows the receiver requests its delivery, or until an operator replays it.
func TestEventWaitsUntilReceiverIsConfigured(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, eventConfig(ledger.Limits{DailyCents: cents(11)}))
		for name, deliver := range map[string]func() error{
			"by a process with the receiver": func() error { return l.DeliverKept(t.Context(), "print") },
			"by a replay": func() error {
				_, _, err := l.Replay(t.Context(), ledger.EventFilter{Owner: "print"}, ledger.EventPosition{}, ada)
				return err
			},
		} {
			r := request(name)
			r.Owner, r.Namespace, r.Limits = "print", "print", ledger.Limits{DailyCents: cents(22)}
			conclude(t, l, write(t, l, r), lifecycle.Named, name)
			observe(t, l, name, lifecycle.Observation{Status: lifecycle.Succeeded})
			if all, err := l.Events(t.Context(), ledger.EventFilter{}, 1); err != nil || len(all) != 1 || all[0].State != ledger.EventKept {
				t.Errorf("the events are %+v, want one in the state EventKept, %v", all, err)
			}
			if due := dueEvents(t, l, "print"); len(due) > 0 {
				t.Errorf("before the receiver is known, the due events are %q", due)
			}
			if err := deliver(); err != nil {
				t.Fatal(err)
			}
			if due := dueEvents(t, l, "print"); !slices.Equal(due, []string{name + " succeeded"}) {
				t.Errorf("%s: the due events are %q", name, due)
			}
			l.Exec(t, "DELETE FROM jobs")
			l.Exec(t, "DELETE FROM events")
		}
	})
}

func TestEventIsNotDeliveredIfReceiverIsAddedTooLate(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		o := eventConfig(ledger.Limits{})
		teams := map[string]ledger.Team{"studio": {}}
		o.Teams = func() map[string]ledger.Team { return teams }
		l := openTelling(t, url, o)
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Succeeded})
		l.Exec(t, fmt.Sprintf("UPDATE events SET event_time = event_time - %d", ledger.DeliverTimeout.Microseconds()))
		teams = map[string]ledger.Team{"studio": {Subscribed: true}}
		if err := l.DeliverKept(t.Context(), "studio"); err != nil {
			t.Fatal(err)
		}
		observe(t, l, "g1", lifecycle.Observation{Deleted: true})
		if due := dueEvents(t, l, "studio"); !slices.Equal(due, []string{"g1 deleted"}) {
			t.Errorf("the due events are %q", due)
		}
	})
}

func TestWaitingEventIsDeliveredBeforeLaterEvents(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		teams := map[string]ledger.Team{"studio": {}}
		o := eventConfig(ledger.Limits{})
		o.Teams = func() map[string]ledger.Team { return teams }
		l := openTelling(t, url, o)
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Failed})
		teams = map[string]ledger.Team{"studio": {Subscribed: true}}
		observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Refunded})
		for _, want := range []string{"easel.generation.failed", "easel.generation.refunded"} {
			job := takeOne(t, l, ledger.DeliverJob)
			if e, _, err := l.Event(t.Context(), job.Ref); err != nil || e.Type != want {
				t.Errorf("the next event is %s, want %s, %v", e.Type, want, err)
			}
			finishJob(t, l, job, ledger.Outcome{Change: ledger.Delivered(job.Ref, 1)})
		}
	})
}

func TestNoEventIsWrittenForOwnerWithoutTeam(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		for name, forwarded := range map[string]bool{"without teams": false, "with a forwarded API key": true} {
			o := eventConfig(ledger.Limits{})
			if !forwarded {
				o = nil
			}
			l, r := openTelling(t, url, o), request(name)
			if forwarded {
				r.Owner, r.Namespace = r.APIKey, r.APIKey
			}
			conclude(t, l, write(t, l, r), lifecycle.Named, name)
			observe(t, l, name, lifecycle.Observation{Status: lifecycle.Succeeded})
			if got := events(t, l); len(got) > 0 || len(l.JobAdded()) > 0 {
				t.Errorf("%s: the written events are %q", name, got)
			}
			closeLedger(t, l)
		}
	})
}

func TestOldEventsAreForgottenUnlessPending(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, eventConfig(ledger.Limits{}))
		for _, owner := range []string{"studio", "print"} {
			r := request("k")
			r.Owner, r.Namespace, r.Caller = owner, owner, owner
			conclude(t, l, write(t, l, r), lifecycle.Named, owner)
			observe(t, l, owner, lifecycle.Observation{Status: lifecycle.Succeeded})
		}
		if sum, err := l.Summary(t.Context(), true); err != nil || len(sum.Events) != 1 || sum.Events[0].Owner != "studio" {
			t.Errorf("the summary of events is %+v, %v", sum.Events, err)
		}
		for _, days := range []int{6, 2} {
			l.Exec(t, fmt.Sprintf("UPDATE events SET event_time = event_time - %d", days*24*3600e6))
			if err := l.ForgetEvents(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := events(t, l); len(got) != map[int]int{6: 2, 2: 1}[days] {
				t.Errorf("%d days later the events are %q", days, got)
			}
		}
	})
}

func TestBudgetThresholdIsReportedOncePerPeriod(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		limits := ledger.Limits{DailyCents: cents(44), MonthlyCents: cents(1000)}
		l := openTelling(t, url, eventConfig(limits))
		order := func(key string) {
			r := request(key)
			r.Limits = limits
			conclude(t, l, write(t, l, r), lifecycle.Uncertain, "")
		}
		order("1")
		order("2")
		order("3")
		if got := events(t, l); len(got) > 0 || len(l.JobAdded()) > 0 {
			t.Errorf("at 75 %% the written events are %q", got)
		}
		order("4")
		if got := events(t, l); !slices.Equal(got, []string{"budget.threshold: day0 44 44", "budget.threshold: day0 44 44"}) || len(l.JobAdded()) != 1 {
			t.Errorf("at 100 %% the written events are %q", got)
		}
		r := request("5")
		r.Limits = limits
		if _, _, err := l.Write(t.Context(), r); err == nil {
			t.Error("an order above the budget was written")
		}
		if got := events(t, l); len(got) != 2 {
			t.Errorf("after a rejection the written events are %q", got)
		}
		l.Exec(t, "UPDATE budgets SET reserved_cents = 0")
		order("6")
		order("7")
		order("8")
		order("9")
		if got := events(t, l); len(got) != 2 {
			t.Errorf("when the threshold is reached again, the written events are %q", got)
		}
		due := takeDeliveries(t, l, "studio")
		if len(due) != 1 || !strings.HasPrefix(due[0].Line, "day.") {
			t.Fatalf("the due deliveries are %+v", due)
		}
		if e, found, err := l.Event(t.Context(), due[0].Ref); e.Percent != 80 || !found || err != nil {
			t.Errorf("the first event is %+v, %v", e, err)
		}
	})
}

func TestChargeAboveReservationTriggersThresholdEvent(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, eventConfig(ledger.Limits{DailyCents: cents(20)}))
		conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
		if got := events(t, l); len(got) > 0 {
			t.Errorf("before the higher charge, the written events are %q", got)
		}
		l.Exec(t, "UPDATE orders SET cost_cents = NULL, reserved_cents = 11")
		l.Exec(t, "UPDATE budgets SET spent_cents = 0, reserved_cents = 11")
		observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Queued, CostCents: cents(17)})
		if got := events(t, l); !slices.Equal(got, []string{"budget.threshold: day17 0 20"}) {
			t.Errorf("after the higher charge, the written events are %q", got)
		}
	})
}

// openWithEndedGenerations returns a ledger with two finished generations. g1 failed and was refunded, and g2 succeeded.
func openWithEndedGenerations(t *testing.T, url string) *ledger.Ledger {
	t.Helper()
	l := openTelling(t, url, eventConfig(ledger.Limits{}))
	for _, g := range []string{"g1", "g2"} {
		conclude(t, l, write(t, l, request(g)), lifecycle.Named, g)
	}
	observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Failed}, lifecycle.Observation{Status: lifecycle.Refunded})
	observe(t, l, "g2", lifecycle.Observation{Status: lifecycle.Succeeded})
	return l
}

// failDelivery leases the due deliveries for the team "studio". It records that the delivery of the first event about g1 failed
// with status 500 and is retried after 10 minutes. It returns the ID of this event.
func failDelivery(t *testing.T, l *ledger.Ledger) (id string) {
	t.Helper()
	for _, job := range takeDeliveries(t, l, "studio") {
		end := ledger.Outcome{Again: true}
		if job.Line == "g1" {
			id, end.Problem, end.After = job.Ref, "500", 10*time.Minute
		}
		finishJob(t, l, job, end)
	}
	return id
}

func TestEventsOfAGenerationAreDeliveredInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openWithEndedGenerations(t, url)
		for _, step := range []struct {
			change func()
			want   []string
		}{
			{func() {}, []string{"g1 failed", "g2 succeeded"}},
			{func() { failDelivery(t, l) }, []string{"g2 succeeded"}},
			{func() { l.Exec(t, "UPDATE jobs SET run_time = run_time - 600000000 WHERE attempts > 0") }, []string{"g1 failed", "g2 succeeded"}},
			{func() {
				for _, job := range takeDeliveries(t, l, "studio") {
					finishJob(t, l, job, ledger.Outcome{Change: ledger.Delivered(job.Ref, job.Attempts+1)})
				}
			}, []string{"g1 refunded"}},
		} {
			if step.change(); !slices.Equal(dueEvents(t, l, "studio"), step.want) {
				t.Errorf("got unexpected due events, want %q", step.want)
			}
		}
		all, err := l.Events(t.Context(), ledger.EventFilter{}, 10)
		if err != nil || len(all) != 3 || slices.ContainsFunc(all, func(e ledger.Event) bool {
			return e.Attempts != map[string]int64{ledger.EventFailed: 2, ledger.EventSucceeded: 1}[e.Type]
		}) {
			t.Errorf("the events are %+v, %v", all, err)
		}
	})
}

func TestUndeliveredEventIsAbandonedAfterADay(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openWithEndedGenerations(t, url)
		failed := failDelivery(t, l)
		for _, step := range []struct{ hours, given int }{{23, 0}, {1, 1}} {
			l.Exec(t, fmt.Sprintf("UPDATE jobs SET begin_time = begin_time - %d WHERE line = 'g1'", step.hours*3600e6))
			if given, err := l.GiveUp(t.Context(), "studio"); given != step.given || err != nil {
				t.Errorf("%d hours later %d events are abandoned, %v", step.hours, given, err)
			}
		}
		if due := dueEvents(t, l, "studio"); !slices.Equal(due, []string{"g1 refunded", "g2 succeeded"}) {
			t.Errorf("after the event was abandoned, the due events are %q", due)
		}
		if given, err := l.Events(t.Context(), ledger.EventFilter{Owner: "studio", GivenUp: true}, 10); err != nil || len(given) != 1 || given[0].ID != failed || given[0].Problem != "500" || given[0].Attempts != 1 {
			t.Errorf("the abandoned events are %+v, %v", given, err)
		}
		if sum, err := l.Summary(t.Context(), true); err != nil || len(sum.Events) != 1 || sum.Events[0].Pending != 2 || sum.Events[0].GivenUp != 1 || sum.Events[0].Oldest > time.Hour {
			t.Errorf("the summary of events is %+v, %v", sum.Events, err)
		}
	})
}

func TestDeliveryInFlightIsNotAbandoned(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openWithEndedGenerations(t, url)
		l.Exec(t, "UPDATE jobs SET begin_time = begin_time - 90000000000")
		job := takeDeliveries(t, l, "studio")[0]
		if given, err := l.GiveUp(t.Context(), "studio"); given != 0 || err != nil {
			t.Errorf("%d events are abandoned during a delivery, %v", given, err)
		}
		finishJob(t, l, job, ledger.Outcome{Change: ledger.Delivered(job.Ref, 1)})
	})
}

func TestReplayedEventIsDeliveredBeforeLaterEvents(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openWithEndedGenerations(t, url)
		failDelivery(t, l)
		l.Exec(t, "UPDATE jobs SET begin_time = begin_time - 86400000000 WHERE attempts > 0")
		if given, err := l.GiveUp(t.Context(), "studio"); given != 1 || err != nil {
			t.Fatal(given, err)
		}
		for filter, events := range map[ledger.EventFilter]int64{{Owner: "print"}: 0, {Owner: "studio", GivenUp: true}: 1} {
			if n, _, err := l.Replay(t.Context(), filter, ledger.EventPosition{}, ada); n != events || err != nil {
				t.Errorf("%d events of %s are replayed, %v", n, filter.Owner, err)
			}
		}
		if due := dueEvents(t, l, "studio"); !slices.Equal(due, []string{"g1 failed", "g2 succeeded"}) {
			t.Errorf("the due events are %q", due)
		}
	})
}

// Even if several replicas record the same state, only one event is written, in the transaction that records the state.
func TestConcurrentObservationsWriteOneEvent(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, eventConfig(ledger.Limits{}))
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
			t.Errorf("the written events are %q, want 1", got)
		}
	})
}
