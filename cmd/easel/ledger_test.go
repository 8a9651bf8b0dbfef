package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

func TestLedgerCanBeCopiedMigratedAndBackedUp(t *testing.T) {
	dir := t.TempDir()
	url, backup, moved := "sqlite:"+filepath.Join(dir, "book.db"), filepath.Join(dir, "backup.db"), "sqlite:"+filepath.Join(dir, "moved.db")
	writeUnknown(t, ledger.Config{URL: url, Catalog: "https://catalog.example", ResendWindow: 12 * time.Hour}, "key")
	env := map[string]string{"EASEL_LEDGER_URL": url}
	for _, step := range []struct {
		exit int
		says string
		args []string
	}{
		{exitOK, backup + " has 2 orders and 2 budgets, 0 differences", []string{"backup", backup}},
		{exitUsage, "exists; use a new file", []string{"backup", backup}},
		{exitOK, "rows are copied: 2 orders and 2 budgets, 0 differences", []string{"copy", url, moved}},
		{exitUsage, "FROM: ledger is sealed because it was already copied", []string{"copy", url, moved}},
		{exitOK, "the ledger is unsealed, and marked as restored: 2 orders are held", []string{"unseal"}},
		{exitUsage, "is not sealed", []string{"unseal"}},
		{exitUsage, "TO: not a new ledger", []string{"copy", url, moved}},
		{exitOK, "the ledger is marked as restored: 2 orders are held until their callers send them again; easel orders list --held lists them", []string{"restored"}},
		{exitUsage, "FROM: a ledger in memory", []string{"copy", "memory", moved}},
		{exitUsage, "TO: another process uses the file", []string{"copy", url, url}},
		{exitOK, "the schema is ", []string{"migrate"}},
		{exitOK, "applied 1_initial", []string{"migrate", "--ledger-url", "sqlite:" + filepath.Join(dir, "new.db")}},
		{exitUsage, "only visible to its own process", []string{"migrate", "--ledger-url", "memory"}},
	} {
		got := easelEnv(t.Context(), nil, env, append([]string{"ledger"}, step.args...)...)
		if got.exit != step.exit || !strings.Contains(got.stdout+got.stderr, step.says) {
			t.Errorf("%q: exit %d, printed\n%s%s", step.args, got.exit, got.stdout, got.stderr)
		}
	}
}
