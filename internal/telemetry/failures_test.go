package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// failureLine is a log line about a catalog failure.
type failureLine struct {
	Msg        string
	Key        string `json:"api_key"`
	Kind       string
	Suppressed int
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

func TestFailuresOfTheCatalogAreLogged(t *testing.T) {
	out := &bytes.Buffer{}
	f := Failures{newLimitedLog(slog.New(slog.NewJSONHandler(out, nil)))}
	one := catalog.Forwarded(catalog.NewSecret("one"))
	f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: &catalog.Error{Kind: catalog.KindRateLimited, Op: "GET /generations"}})
	f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: &catalog.Error{Kind: catalog.KindNotFound, Op: "GET /generations/{id}"}})
	f.Polled(t.Context(), watch.Poll{Tenant: one.Tenant}, watch.Outcome{Err: fmt.Errorf("stopped: %w", context.Canceled)})
	f.Called(t.Context(), one, &catalog.Error{Kind: catalog.KindUnavailable, Op: "POST /generations"})
	f.Called(t.Context(), one, &catalog.Error{Kind: catalog.KindInvalidInput, Op: "POST /generations"})
	f.Called(t.Context(), one, nil)
	key := one.Tenant.Fingerprint()
	want := []failureLine{{"catalog failed", key, "rate limited", 0}, {"catalog failed", key, "unavailable", 0}}
	if got := failureLines(t, out); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("logged %v, want %v", got, want)
	}
}

func TestRepeatedFailuresAreLoggedAtLimitedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		f := Failures{newLimitedLog(slog.New(slog.NewJSONHandler(out, nil)))}
		down := &catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /generations"}
		for i := range 1000 {
			f.Polled(t.Context(), watch.Poll{Tenant: catalog.Forwarded(catalog.NewSecret(fmt.Sprint("key ", i))).Tenant}, watch.Outcome{Err: down})
		}
		time.Sleep(limitedInterval)
		for range 10 {
			f.Called(t.Context(), catalog.Forwarded(catalog.NewSecret("one")), down)
		}
		time.Sleep(limitedInterval)
		f.Handle(errors.New("no route to the collector"))
		got := failureLines(t, out)
		if len(got) != limitedBurst+2 || got[limitedBurst].Suppressed != 1000-limitedBurst || got[limitedBurst+1].Suppressed != 9 || got[limitedBurst+1].Msg != "OpenTelemetry reports an error" {
			t.Errorf("logged %v", got)
		}
	})
}
