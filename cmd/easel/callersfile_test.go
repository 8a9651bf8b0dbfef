package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestACallersFileKeepsTheOwnersOfUnknownOrders(t *testing.T) {
	led, err := ledger.Open(t.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "book.db"), Catalog: "https://catalog.example", ResendWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	order, _, err := led.Write(t.Context(), ledger.Request{Namespace: "studio", Owner: "studio", Caller: "poster", IdempotencyKey: "k", UpstreamKey: "u", Inputs: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		dropped []string
		refused string
	}{{nil, ""}, {[]string{"print"}, ""}, {[]string{"print", "studio"}, "it drops studio, with"}} {
		if err := keepsOwners(t.Context(), led, row.dropped); (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
			t.Errorf("without %q: %v", row.dropped, err)
		}
	}
	if _, err := led.Conclude(t.Context(), order.ID, order.Leases, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "g"}); err != nil {
		t.Fatal(err)
	}
	if err := keepsOwners(t.Context(), led, []string{"studio"}); err != nil {
		t.Errorf("when the order is known: %v", err)
	}
	if err := led.Close(); err != nil {
		t.Fatal(err)
	}
	if err := keepsOwners(t.Context(), led, []string{"studio"}); err == nil || !strings.Contains(err.Error(), "it drops studio, and") {
		t.Errorf("when the ledger is unavailable: %v", err)
	}
}

func TestTheStartWarnsOfUnknownOrdersWhoseOwnerTheCallersFileLacks(t *testing.T) {
	led, err := ledger.Open(t.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "book.db"), Catalog: "https://catalog.example", ResendWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"studio", "print"} {
		if _, free, err := led.Write(t.Context(), ledger.Request{Namespace: owner, Owner: owner, Caller: owner + "-poster", IdempotencyKey: "k", UpstreamKey: owner, Inputs: "{}"}); err != nil || !free {
			t.Fatal(free, err)
		}
	}
	logOf := func(teams string) string {
		inForce, err := auth.Parse([]byte("callers: []\nteams:\n" + teams))
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		warnOfMissingOwners(t.Context(), led, inForce, slog.New(slog.NewTextHandler(&log, nil)))
		return log.String()
	}
	if log := logOf("  studio: {}\n"); !strings.Contains(log, "owners=1") {
		t.Errorf("without print the log has %q", log)
	}
	if log := logOf("  studio: {}\n  print: {}\n"); log != "" {
		t.Errorf("with both it says %q", log)
	}
	if err := led.Close(); err != nil {
		t.Fatal(err)
	}
	if log := logOf("  studio: {}\n"); !strings.Contains(log, "cannot check the callers file") {
		t.Errorf("when the ledger is away it says %q", log)
	}
}
