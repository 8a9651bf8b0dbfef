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
)

func TestUnresolvedOrdersOfUnlistedOwnersAreLogged(t *testing.T) {
	led, err := ledger.Open(t.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"), Catalog: "https://catalog.example", ResendWindow: time.Hour})
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
		t.Errorf("with one team missing, the log has %q", log)
	}
	if log := logOf("  studio: {}\n  print: {}\n"); log != "" {
		t.Errorf("with both teams, the log has %q, want nothing", log)
	}
	if err := led.Close(); err != nil {
		t.Fatal(err)
	}
	if log := logOf("  studio: {}\n"); !strings.Contains(log, "callers file not checked") {
		t.Errorf("with a closed ledger, the log has %q", log)
	}
}
