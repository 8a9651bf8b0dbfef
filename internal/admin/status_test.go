package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/watch"
)

// quietStatus returns the status of a server without problems. It also returns the status's snapshot of the hub,
// which a test can change.
func quietStatus() (*watch.Snapshot, Status) {
	hub := &watch.Snapshot{Time: time.Now()}
	return hub, Status{
		Version: "v1", Began: time.Now(),
		Hub:      func() watch.Snapshot { return *hub },
		Limiters: func() map[string]limiter.State { return nil },
		Usage:    func() []Usage { return []Usage{{Limit: "calls", Used: 1, Max: 240}} },
		Serving:  func(context.Context) bool { return true },
		Ledger:   func() ledger.Reading { return ledger.Reading{Up: true, Time: time.Now()} },
		Problems: func() map[string][]error { return nil },
	}
}

// waitingLimiters returns a function that reports seven waiting orders under one API key. since is the time when
// the oldest of them began to wait.
func waitingLimiters(since time.Time) func() map[string]limiter.State {
	return func() map[string]limiter.State {
		return map[string]limiter.State{"aa": {Waiting: []limiter.Waiting{
			{Owner: "studio", Class: limiter.Order, Count: 5, Since: since.Add(time.Millisecond)}, {Owner: "poster", Class: limiter.Order, Count: 2, Since: since},
		}}}
	}
}

// addKey adds the API key k to a snapshot, and increments the snapshot's count of API keys in k's condition.
func addKey(hub *watch.Snapshot, k watch.PolledCredential) {
	hub.Credentials = append(hub.Credentials, k)
	hub.Stats.Conditions[k.Condition]++
}

// withReading returns a function that changes a status so that it uses the given reading of the ledger.
func withReading(l ledger.Reading) func(*watch.Snapshot, *Status) {
	return func(_ *watch.Snapshot, s *Status) { s.Ledger = func() ledger.Reading { return l } }
}

func TestStatusListsProblemsWithSeverity(t *testing.T) {
	owning := func(b ledger.Budget) ledger.Reading {
		return ledger.Reading{Up: true, Summary: ledger.Summary{Owners: []ledger.OwnerSummary{{Owner: "studio", Budgets: []ledger.Budget{b}}}}}
	}
	unknown := func(since time.Duration) ledger.Reading {
		return ledger.Reading{Up: true, Summary: ledger.Summary{Unknown: 1, OldestUnknown: since}}
	}
	pending := func(since time.Duration) ledger.Reading {
		l := owning(ledger.Budget{Period: "month", LimitCents: 100})
		l.Events = []ledger.EventSummary{{Owner: "studio", Pending: 1, Oldest: since}}
		return l
	}
	for name, test := range map[string]struct {
		change func(*watch.Snapshot, *Status)
		say    string
		grave  bool
	}{
		"nothing": {func(*watch.Snapshot, *Status) {}, "", false},
		"a healthy key": {func(h *watch.Snapshot, _ *Status) {
			addKey(h, watch.PolledCredential{Condition: watch.ConditionHealthy})
		}, "", false},
		"one poll that failed": {func(h *watch.Snapshot, _ *Status) {
			addKey(h, watch.PolledCredential{Condition: watch.ConditionUnreachable, Failures: 1})
		}, "Requests to the catalog fail", false},
		"an outage": {func(h *watch.Snapshot, _ *Status) {
			addKey(h, watch.PolledCredential{Condition: watch.ConditionUnreachable, Failures: 9})
		}, "Requests to the catalog fail", true},
		"a throttled key": {func(h *watch.Snapshot, _ *Status) {
			addKey(h, watch.PolledCredential{Condition: watch.ConditionThrottled})
		}, "slow down", false},
		"a rejected forwarded key": {func(h *watch.Snapshot, _ *Status) {
			addKey(h, watch.PolledCredential{Condition: watch.ConditionCredentialRejected})
		}, "rejects", false},
		"a rejected shared key": {func(h *watch.Snapshot, _ *Status) {
			addKey(h, watch.PolledCredential{Condition: watch.ConditionCredentialRejected, IsShared: true, Tenant: "held"})
		}, "rejects an API key (held)", true},
		"polls that are late": {func(h *watch.Snapshot, _ *Status) { h.Stats.Stalest = 90 * time.Second }, "1m30s", false},
		"a limit that is nearly reached": {func(_ *watch.Snapshot, s *Status) {
			s.Usage = func() []Usage { return []Usage{{Limit: "streams", Used: 80, Max: 100}} }
		}, "80 of 100 streams", false},
		"a limit that is reached": {func(_ *watch.Snapshot, s *Status) {
			s.Usage = func() []Usage { return []Usage{{Limit: "streams", Used: 100, Max: 100}} }
		}, "100 of 100 streams are in use; further ones are rejected", true},
		"orders that have waited for a second": {func(_ *watch.Snapshot, s *Status) {
			s.Limiters = waitingLimiters(time.Now().Add(-time.Second))
		}, "", false},
		"orders that have waited for a minute": {func(_ *watch.Snapshot, s *Status) {
			s.Limiters = waitingLimiters(time.Now().Add(-time.Minute))
		}, "7 requests wait for permits, the first for 1m0s", false},
		"a daily cap": {func(_ *watch.Snapshot, s *Status) {
			s.Limiters = func() map[string]limiter.State { return map[string]limiter.State{"aa": {Capped: true}} }
		}, "daily cap of an API key (aa)", true},
		"an unavailable issuer": {func(_ *watch.Snapshot, s *Status) {
			s.Problems = func() map[string][]error {
				return map[string][]error{Issuers: {errors.New("https://issuer.example: jwks_url: unexpected status 503")}}
			}
		}, "can't be read: https://issuer.example: jwks_url", true},
		"a drain": {func(_ *watch.Snapshot, s *Status) { s.Serving = func(context.Context) bool { return false } }, "accepts no calls", true},

		"a budget with enough left":           {withReading(owning(ledger.Budget{Period: "month", LimitCents: 100, SpentCents: 79})), "", false},
		"an outcome unknown for a minute":     {withReading(unknown(time.Minute)), "", false},
		"an outcome that just became unknown": {withReading(unknown(0)), "", false},
		"an order time in the future":         {withReading(unknown(-time.Hour)), "", false}, // the database's clock may have been turned back after the order was placed
		"an event that just became pending":   {withReading(pending(0)), "", false},
		"an event pending for 31 minutes":     {withReading(pending(31 * time.Minute)), "do not accept events (see easel events list): studio", false},
		"an outcome unknown for 11 minutes":   {withReading(unknown(11 * time.Minute)), "Orders whose outcome is unknown: 1, the oldest for 11m0s", false},
		"a budget with a fifth left":          {withReading(owning(ledger.Budget{Period: "day", LimitCents: 100, SpentCents: 70, ReservedCents: 10})), "a fifth of a budget left: studio.", false},
		"an unavailable ledger":               {withReading(ledger.Reading{}), "does not answer", true},
		"contradictory states of an order":    {withReading(ledger.Reading{Up: true, Faults: 2}), "since the start: 2", true},
	} {
		hub, source := quietStatus()
		test.change(hub, &source)
		said := source.report(t.Context()).Concerns
		switch {
		case test.say == "" && len(said) == 0:
		case len(said) != 1 || test.say == "" || !strings.Contains(said[0].Text, test.say) || said[0].Grave != test.grave:
			t.Errorf("%s: %+v", name, said)
		}
	}
}

func TestStatusListsAtMostFiveFailingAPIKeys(t *testing.T) {
	hub, source := quietStatus()
	for range 30 {
		addKey(hub, watch.PolledCredential{Condition: watch.ConditionUnreachable, Failures: 9, Tenant: "0123456789abcdef"})
	}
	said := source.report(t.Context()).Concerns
	if len(said) != 1 || strings.Count(said[0].Text, "01234567") != 5 || !strings.Contains(said[0].Text, "30 API keys") || strings.Contains(said[0].Text, "89ab") {
		t.Errorf("%+v", said)
	}
}

func TestEmptyStatusJSONContainsNoNulls(t *testing.T) {
	_, source := quietStatus()
	w := httptest.NewRecorder()
	source.serveReport(w, httptest.NewRequest(http.MethodGet, "/status.json", nil))
	if !json.Valid(w.Body.Bytes()) || strings.Contains(w.Body.String(), "null") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s", w.Body)
	}
}

func TestIdleLimitersAreNotReported(t *testing.T) {
	now := time.Now().UTC()
	_, source := quietStatus()
	source.Limiters = func() map[string]limiter.State {
		return map[string]limiter.State{
			"0123456789ab": {Closed: true, Paused: now, Waiting: []limiter.Waiting{{Owner: "studio", Class: limiter.Order, Count: 2, Since: now}}},
			"idle":         {PollRate: 5},
		}
	}
	w := httptest.NewRecorder()
	source.serveReport(w, httptest.NewRequest(http.MethodGet, "/status.json", nil))
	var got struct {
		Limiters map[string]struct {
			Closed     bool
			PausedTill time.Time
			Waiting    []struct {
				Owner, Class string
				Count        int
				Oldest       time.Time
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	l := got.Limiters["01234567"]
	if len(got.Limiters) != 1 || !l.Closed || !l.PausedTill.Equal(now) || len(l.Waiting) != 1 || l.Waiting[0].Class != "order" || l.Waiting[0].Count != 2 || !l.Waiting[0].Oldest.Equal(now) {
		t.Errorf("%+v in\n%s", got, w.Body)
	}
}
