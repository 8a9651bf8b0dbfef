package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

// teamsFile returns the path of a callers file with two teams and an operator. The token of each caller is its
// name.
func teamsFile(t *testing.T) string {
	t.Helper()
	text := "teams:\n  studio: {budget: {daily_cents: 50}, models: [studio/haiku]}\n  print: {}\ncallers:\n"
	for name, team := range map[string]string{"poster": "team: studio", "flyer": "team: print", "ops": "operator: true"} {
		text += "  - {name: " + name + ", " + team + ", tokens: [\"" + auth.Hash(name) + "\"]}\n"
	}
	return proctest.File(t, text)
}

// runAs runs a client command with a caller's token. banner is the output of the 'easel dev' process to which the
// command connects. The result contains the command's output and exit code.
func runAs(t *testing.T, banner, caller string, args ...string) printed {
	t.Helper()
	return easelEnv(t.Context(), nil, map[string]string{"EASEL_ADDR": proctest.Find(t, `gRPC +(\S+)`, banner), "EASEL_API_KEY": caller}, args...)
}

func TestDevCommandAcceptsTokensFromCallersFile(t *testing.T) {
	file := teamsFile(t)
	flags := []string{"--db", filepath.Join(t.TempDir(), "studio.db"), "--callers", file, "--speed", "20"}
	banner, stop := devOn(t, flags...)
	if strings.Contains(banner, "sandbox_live") || !strings.Contains(banner, "a token of a caller in "+file) || !strings.Contains(banner, "ledger of orders is kept") {
		t.Errorf("the banner is\n%s", banner)
	}
	order := []string{"generate", "studio/haiku", "prompt=rain", "--idempotency-key", "monday", "-q"}
	poster, flyer := runAs(t, banner, "poster", order...), runAs(t, banner, "flyer", order...)
	if poster.exit != exitOK || flyer.exit != exitOK || poster.stdout == flyer.stdout {
		t.Errorf("orders of two teams with one idempotency key:\n%s%s%s%s", poster.stdout, poster.stderr, flyer.stdout, flyer.stderr)
	}
	if got := runAs(t, banner, "stranger", "account"); got.exit != exitCredential {
		t.Errorf("unknown token: exit %d", got.exit)
	}
	if exit := stop(); exit != exitOK {
		t.Errorf("the command exited with %d", exit)
	}
	banner, _ = devOn(t, flags...)
	if again := runAs(t, banner, "poster", order...); again.exit != exitOK || again.stdout != poster.stdout {
		t.Errorf("after a restart, the same order printed\n%s%s", again.stdout, again.stderr)
	}
}

func TestDevCommandReportsInvalidCallersFile(t *testing.T) {
	got := easel(t.Context(), nil, "dev", "--callers", proctest.File(t, "callers:\n  - {name: a, tokens: [hunter2]}\n"))
	if got.exit != exitUsage || !strings.Contains(got.stderr, "--callers: ") || !strings.Contains(got.stderr, "line 2") || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}
