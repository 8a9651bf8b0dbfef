package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/service"
)

func TestACallersFileKeepsTheOwnersOfUnknownOrders(t *testing.T) {
	book, err := ledger.Open(t.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "book.db"), Catalog: "https://catalog.example", ResendWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	order, _, err := book.Write(t.Context(), ledger.Request{Namespace: "studio", Owner: "studio", Caller: "poster", IdempotencyKey: "k", UpstreamKey: "u", Inputs: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		dropped []string
		refused string
	}{{nil, ""}, {[]string{"print"}, ""}, {[]string{"print", "studio"}, "it drops studio, with"}} {
		if err := keepsOwners(t.Context(), book, row.dropped); (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
			t.Errorf("without %q: %v", row.dropped, err)
		}
	}
	if _, err := book.Conclude(t.Context(), order.ID, order.Claims, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "g"}); err != nil {
		t.Fatal(err)
	}
	if err := keepsOwners(t.Context(), book, []string{"studio"}); err != nil {
		t.Errorf("when the order is known: %v", err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if err := keepsOwners(t.Context(), book, []string{"studio"}); err == nil || !strings.Contains(err.Error(), "it drops studio, and") {
		t.Errorf("when the ledger is away: %v", err)
	}
}

func TestAMissingSecretFileLeavesTheOldCallersFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notifier := &notifier{data: service.EventData{Catalog: "https://catalog.example"}, count: func(string, string, int64) {}}
		book, err := ledger.Open(t.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "book.db"), Catalog: "https://catalog.example", ResendWindow: time.Hour, Outbox: notifier.outbox()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = book.Close() }()
		dir := t.TempDir()
		file, secret, second := filepath.Join(dir, "callers"), filepath.Join(dir, "secret"), filepath.Join(dir, "second")
		put := func(path, text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		team := func(name, secret string) string {
			return fmt.Sprintf("  %s: {events: {url: \"https://%s.example/\", secret_file: %q}}\n", name, name, secret)
		}
		both, posterGone := "callers: [{name: poster, team: studio}, {name: flyer}]\n", "callers: [{name: flyer}]\n"
		put(secret, devSecret)
		put(file, "teams:\n"+team("studio", secret)+both)
		var log bytes.Buffer
		known, err := loadCallers(t.Context(), file, book, notifier, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		inForce := func() string {
			time.Sleep(reload.Interval)
			known.Reload()
			count := len(known.List().Callers())
			return fmt.Sprint(book.Subscribers(), count)
		}
		put(file, "teams:\n"+team("studio", secret)+team("print", second)+posterGone)
		for range 3 {
			if got := inForce(); got != "[studio] 2" {
				t.Errorf("while the second file is missing, in force is %s", got)
			}
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "secret_file of the team print") || !strings.Contains(got, "the old one stays") {
			t.Errorf("logged is %s", got)
		}
		put(second, devSecret)
		if got := inForce(); got != "[print studio] 1" {
			t.Errorf("with the second file, in force is %s", got)
		}
		put(second, "broken")
		put(file, "teams:\n"+team("print", second)+posterGone)
		if got := inForce(); got != "[print] 1" {
			t.Errorf("after a change of the callers file beside a file in use that broke, in force is %s", got)
		}
	})
}

func TestTheStartWarnsOfUnknownOrdersWhoseOwnerTheCallersFileLacks(t *testing.T) {
	book, err := ledger.Open(t.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "book.db"), Catalog: "https://catalog.example", ResendWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"studio", "print"} {
		if _, free, err := book.Write(t.Context(), ledger.Request{Namespace: owner, Owner: owner, Caller: owner + "-poster", IdempotencyKey: "k", UpstreamKey: owner, Inputs: "{}"}); err != nil || !free {
			t.Fatal(free, err)
		}
	}
	logOf := func(teams string) string {
		inForce, err := auth.Parse([]byte("callers: []\nteams:\n" + teams))
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		warnOfMissingOwners(t.Context(), book, inForce, slog.New(slog.NewTextHandler(&log, nil)))
		return log.String()
	}
	if log := logOf("  studio: {}\n"); !strings.Contains(log, "owners=1") {
		t.Errorf("without print it says %q", log)
	}
	if log := logOf("  studio: {}\n  print: {}\n"); log != "" {
		t.Errorf("with both it says %q", log)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if log := logOf("  studio: {}\n"); !strings.Contains(log, "does not say") {
		t.Errorf("when the ledger is away it says %q", log)
	}
}
