package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// failureLine is a line about the catalog.
type failureLine struct {
	Msg   string
	Key   string `json:"api_key"`
	Kind  string
	Times int
}

func failureLines(t *testing.T, out *bytes.Buffer) (lines []failureLine) {
	t.Helper()
	for decoder := json.NewDecoder(out); decoder.More(); {
		var line failureLine
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestAnOutageIsLoggedOnceAndThenCountedByTheMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		f := newFailures(slog.New(slog.NewJSONHandler(out, nil)))
		down := &catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /generations"}
		one, other := catalog.Forwarded(catalog.NewSecret("one")), catalog.Forwarded(catalog.NewSecret("other"))
		for range 90 {
			f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: down})
			f.Called(t.Context(), one, down)
			time.Sleep(1010 * time.Millisecond) // never at the same moment as the sum
		}
		f.Polled(t.Context(), watch.Poll{Tenant: other.Tenant}, watch.Outcome{Err: down})
		f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: &catalog.Error{Kind: catalog.KindRateLimited, Op: "GET /generations"}})
		f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: &catalog.Error{Kind: catalog.KindNotFound, Op: "GET /generations/{id}"}})
		f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: fmt.Errorf("stopped: %w", context.Canceled)})
		f.Called(t.Context(), one, &catalog.Error{Kind: catalog.KindInvalidInput, Op: "POST /generations"})
		f.Called(t.Context(), one, nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		key, second := one.Tenant.Fingerprint(), other.Tenant.Fingerprint()
		want := []failureLine{
			{"the catalog fails", key, "unavailable", 0},
			{"the catalog has failed again", key, "unavailable", 119},
			{"the catalog fails", second, "unavailable", 0},
			{"the catalog fails", key, "rate limited", 0},
			{"the catalog has failed again", key, "unavailable", 60},
		}
		if got := failureLines(t, out); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("logged\n%v, want\n%v", got, want)
		}
		if len(f.open) != 0 {
			t.Errorf("%d troubles are remembered after a quiet hour", len(f.open))
		}
		f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: down})
		f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: down})
		f.stop()
		if got := failureLines(t, out); len(got) != 2 || got[1].Times != 1 {
			t.Errorf("a stop logs %v", got)
		}
	})
}

func TestManyAPIKeysMakeABoundedNumberOfLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		f := newFailures(slog.New(slog.NewJSONHandler(out, nil)))
		for i := range 10_000 {
			f.Polled(t.Context(), watch.Poll{Tenant: catalog.Forwarded(catalog.NewSecret(fmt.Sprint("key ", i))).Tenant}, watch.Outcome{Err: &catalog.Error{Kind: catalog.KindUnavailable}})
		}
		if got := failureLines(t, out); len(got) > maxFailures+1 || len(f.open) > maxFailures+1 {
			t.Errorf("%d lines, %d remembered", len(got), len(f.open))
		}
		f.stop()
	})
}
