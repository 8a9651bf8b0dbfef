package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

const prompt = "a harbour that nobody else is to know of"

// writePrompted writes an order whose inputs, label and record contain [prompt]. The inputs are so large that SQLite needs
// overflow pages.
func writePrompted(t *testing.T, l *ledger.Ledger, key, generation string) ledger.Order {
	t.Helper()
	r := request(key)
	r.Inputs = `{"prompt":"` + prompt + strings.Repeat(" and so on", 2_000) + `"}`
	r.Labels = map[string]string{"about": prompt}
	o := write(t, l, r)
	conclude(t, l, o, lifecycle.Named, generation)
	seen := ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9), Whole: true}, Record: `{"FailureMessage":"` + prompt + `"}`}
	if _, err := l.Observe(t.Context(), generation, seen); err != nil {
		t.Fatal(err)
	}
	return o
}

// retentionConfig returns an event configuration with the given retention. Each generation event contains the order's label
// and record, which may contain [prompt].
func retentionConfig(retention time.Duration) *ledger.EventConfig {
	return &ledger.EventConfig{
		Teams: func() map[string]ledger.Team {
			return map[string]ledger.Team{"studio": {Subscribed: true, Retention: retention}}
		},
		Generation: func(o ledger.Order, _ *string) string {
			return fmt.Sprint(o.Generation, o.Status, o.IsDeleted(), o.Labels["about"], o.Record)
		},
		Budget: func(ledger.Budget) string { return "{}" },
	}
}

// containsPrompt reports whether a closed ledger contains [prompt] anywhere.
func containsPrompt(t *testing.T, url string) bool {
	t.Helper()
	file, isFile := strings.CutPrefix(url, "sqlite:")
	if !isFile { // with PostgreSQL, only the rows are checked, because PostgreSQL clears its pages itself
		l := open(t, url)
		for _, table := range ledger.CopiedTables() {
			if n := l.Ask(t, fmt.Sprintf("SELECT COUNT(*)::TEXT FROM %s AS one WHERE one::TEXT LIKE '%%%s%%'", table, prompt)); n != "0" {
				return true
			}
		}
		return false
	}
	return fileContains(t, file, prompt)
}

// fileContains reports whether a file, or any file in the same directory, contains a text.
func fileContains(t *testing.T, file, text string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if err != nil || len(found) == 0 {
		t.Error(found, err)
	}
	for _, part := range found {
		data, err := os.ReadFile(part)
		if err != nil {
			t.Error(err)
		}
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

func TestErasureRemovesPromptFromLedger(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, retentionConfig(0))
		o := writePrompted(t, l, "secret", "g1")
		open := request("open")
		unknown := write(t, l, open)
		closeLedger(t, l)
		if !containsPrompt(t, url) {
			t.Fatal("the ledger does not contain the prompt before the erasure")
		}
		l = openTelling(t, url, retentionConfig(0))
		for _, want := range []int64{1, 0} {
			if erased, err := l.Erase(t.Context(), orderOfGeneration(t, l, "g1"), unknown); err != nil || erased != want {
				t.Errorf("%d orders are erased, want %d, %v", erased, want, err)
			}
		}
		observed := ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9)}, Record: prompt}
		if _, err := l.Observe(t.Context(), "g1", observed); err != nil {
			t.Fatal(err)
		}
		kept := orderOfGeneration(t, l, "g1")
		if !kept.Erased || kept.Record != "" || len(kept.Labels) > 0 || kept.CostCents == nil || kept.Status != lifecycle.Succeeded {
			t.Errorf("the erased order is %+v", kept)
		}
		wantAnswer(t, l, request("secret"), lifecycle.Replay, "a repeat of the erased order")
		if lines, err := l.Movements(t.Context(), o.ID); err != nil || len(lines) < 3 {
			t.Errorf("the journal of the erased order is %v, %v", lines, err)
		}
		if again, found, err := l.Get(t.Context(), unknown.ID); err != nil || !found || again.Inputs == "" {
			t.Errorf("an order that may be resent has lost its inputs: %v", err)
		}
		closeLedger(t, l)
		if containsPrompt(t, url) {
			t.Error("the ledger still contains the prompt")
		}
		wantNoDifference(t, url)
	})
}

// An erasure also removes the content of a concurrent observation, whichever transaction commits first.
func TestErasureRemovesConcurrentObservation(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, retentionConfig(0))
		for n := range 10 {
			r, id := request(fmt.Sprint("k", n)), fmt.Sprint("g", n)
			r.Labels = map[string]string{"about": prompt}
			conclude(t, l, write(t, l, r), lifecycle.Named, id)
			placed, both := orderOfGeneration(t, l, id), make(chan error)
			go func() {
				_, err := l.Observe(t.Context(), id, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9), Whole: true}, Record: prompt})
				both <- err
			}()
			go func() {
				_, err := l.Erase(t.Context(), placed)
				both <- err
			}()
			if err := errors.Join(<-both, <-both); err != nil {
				t.Fatal(err)
			}
			if o := orderOfGeneration(t, l, id); !o.Erased || o.Record != "" || len(o.Labels) > 0 || o.Status != lifecycle.Succeeded {
				t.Errorf("%s is %+v", id, o)
			}
		}
		told, err := l.Events(t.Context(), ledger.EventFilter{}, 100)
		if err != nil || len(told) != 10 {
			t.Errorf("got %d events, want 10, and the error %v", len(told), err)
		}
		for _, e := range told {
			if strings.Contains(e.Data, prompt) {
				t.Errorf("the event of %s contains the prompt: %s", e.Subject, e.Data)
			}
		}
	})
}

// When an order is erased, its delivered events are deleted. Its pending events are still delivered. They lose the
// erased content, but report the same status as before.
func TestPendingEventsOfErasedOrderAreStillDelivered(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, retentionConfig(0))
		for _, id := range []string{"told", "untold"} {
			writePrompted(t, l, id, id)
		}
		for _, job := range takeDeliveries(t, l, "studio") {
			end := ledger.Outcome{Change: ledger.Delivered(job.Ref, 1)}
			if job.Line == "untold" {
				end = ledger.Outcome{Again: true}
			}
			finishJob(t, l, job, end)
		}
		before := []ledger.Order{orderOfGeneration(t, l, "told"), orderOfGeneration(t, l, "untold")}
		for _, o := range before {
			observe(t, l, o.Generation, lifecycle.Observation{Deleted: true})
		}
		if erased, err := l.Erase(t.Context(), before...); erased != 2 || err != nil {
			t.Fatal(erased, err)
		}
		got := events(t, l)
		slices.Sort(got)
		want := []string{"generation.deleted: toldsucceeded true", "generation.deleted: untoldsucceeded true", "generation.succeeded: untoldsucceeded false"}
		if !slices.Equal(got, want) {
			t.Errorf("the events are %q", got)
		}
		if due := takeDeliveries(t, l, "studio"); len(due) != 2 {
			t.Errorf("the due deliveries are %v, want 2", due)
		}
	})
}

func TestSettledOrdersAreErasedAfterRetentionPeriod(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, retentionConfig(48*time.Hour))
		for n := range 5 {
			writePrompted(t, l, fmt.Sprint("old", n), fmt.Sprint("old", n))
		}
		conclude(t, l, write(t, l, request("moving")), lifecycle.Named, "moving")
		unknown, resolved := write(t, l, request("unknown")), write(t, l, request("resolved"))
		conclude(t, l, resolved, lifecycle.Uncertain, "")
		l.Exec(t, "UPDATE orders SET order_time = order_time - 172800000000")
		writePrompted(t, l, "new", "new")
		pass := func(want int64) {
			t.Helper()
			if erased, err := l.Retain(t.Context()); erased != want || err != nil {
				t.Fatalf("%d orders are erased, want %d, %v", erased, want, err)
			}
		}
		pass(5)
		pass(0)
		for id, want := range map[string]bool{"old0": true, "old4": true, "moving": false, "new": false} {
			if o := orderOfGeneration(t, l, id); o.Erased != want || (len(o.Labels) == 0) != want {
				t.Errorf("%s: erased %v, labels %v", id, o.Erased, o.Labels)
			}
		}
		observe(t, l, "moving", lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9), Whole: true})
		conclude(t, l, unknown, lifecycle.Named, "unknown")
		observe(t, l, "unknown", lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9), Whole: true})
		resolve(t, l, resolved, theAPIKey, ledger.Resolution{By: ada})
		pass(3)
		pass(0)
		for _, id := range []string{"moving", "unknown"} {
			if o := orderOfGeneration(t, l, id); !o.Erased {
				t.Errorf("%s was settled after the first run, but is not erased", id)
			}
		}
	})
}
