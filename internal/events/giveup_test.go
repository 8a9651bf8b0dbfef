package events_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// If a receiver never accepts an event, the event is abandoned after a day. Until then, only later events about the
// same generation are delayed.
func TestAbandonedEventReleasesNextEventOfGeneration(t *testing.T) {
	inOffice(t, func(o *office) {
		o.answer = func(_ string, p post) (int, error) {
			if p.subject == "g1" && p.kind == "generation.failed" {
				return http.StatusBadRequest, nil
			}
			return 200, nil
		}
		stop := o.runSender(o.sender)
		o.placeOrder("studio", "g1", lifecycle.Failed, lifecycle.Refunded)
		o.placeOrder("studio", "g2", lifecycle.Failed, lifecycle.Refunded)
		time.Sleep(time.Minute)
		stop() // the sender is stopped for most of the day, because a full day of attempts would make the test too slow
		time.Sleep(23*time.Hour + 48*time.Minute)
		stop = o.runSender(o.sender)
		time.Sleep(2 * time.Minute)
		stop()
		if got := kinds(o.got("studio")); !slices.Equal(got, []string{"g2 generation.failed", "g2 generation.refunded"}) {
			t.Errorf("after almost a day the receiver got %q", got)
		}
		time.Sleep(10 * time.Minute)
		defer o.runSender(o.sender)()
		time.Sleep(2 * time.Minute)
		if got := kinds(o.got("studio")); len(got) != 3 || got[2] != "g1 generation.refunded" || o.count("studio given_up") != 1 {
			t.Errorf("after a day the receiver got %q, %v", got, o.counts)
		}
		if not, given := o.countLogged("event delivery failed"), o.countLogged("events abandoned"); not != 1 || given != 1 {
			t.Errorf("the log reports %d failed deliveries and %d abandoned events", not, given)
		}
		o.answer = func(string, post) (int, error) { return 200, nil }
		if n, _, err := o.ledger.Replay(o.Context(), ledger.EventFilter{Owner: "studio", GivenUp: true}, ledger.EventPosition{}, ledger.By{Actor: "ops"}); n != 1 || err != nil {
			t.Errorf("%d events are replayed, want 1: %v", n, err)
		}
		o.awaitJobs()
		if got := kinds(o.got("studio")); len(got) != 4 || got[3] != "g1 generation.failed" {
			t.Errorf("after a replay the receiver got %q", got)
		}
	})
}

// An alert cannot detect an increase if a metric first appears with a value above zero.
func TestAbandonedEventsMetricStartsAtZero(t *testing.T) {
	for name, teams := range map[string][]string{"another team is registered": {"print"}, "no team is registered": nil} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				o.answer = func(string, post) (int, error) { return 500, nil }
				stop := o.runSender(o.newSender(o.receivers))
				o.placeOrder("studio", "g1", lifecycle.Failed)
				o.placeOrder("studio", "g2", lifecycle.Failed)
				time.Sleep(2 * time.Second)
				stop()
				o.registerTeams(teams...)
				o.answer = func(string, post) (int, error) { return 200, nil } // from now on, all receivers accept events
				time.Sleep(23*time.Hour + 58*time.Minute)                      // the sender does not run during this time, because a full day of attempts would make the test too slow
				defer o.runSender(o.sender)()
				time.Sleep(time.Minute)
				o.mu.Lock()
				n, counted := o.counts["studio given_up"]
				o.mu.Unlock()
				if n != 0 || !counted {
					t.Errorf("after almost a day the count of abandoned events is %d (exists: %v), want 0", n, counted)
				}
				time.Sleep(3 * time.Minute)
				sum, err := o.ledger.Summary(o.Context(), true)
				if err != nil || len(sum.Events) != 1 || sum.Events[0] != (ledger.EventSummary{Owner: "studio", GivenUp: 2}) || o.count("studio given_up") != 2 || len(o.got("studio")) > 0 {
					t.Errorf("after a day the summary is %v, %v, and the counts are %v", sum.Events, err, o.counts)
				}
			})
		})
	}
}
