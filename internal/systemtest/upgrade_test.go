package systemtest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

var upgradeFrom = flag.String("upgrade-from", "", "a commit whose program runs with this one on one PostgreSQL, before it and after it, which takes minutes")

// programOf builds Easel at a commit and returns the path of the program.
func programOf(t *testing.T, commit string) string {
	t.Helper()
	tree := t.TempDir()
	program, source := filepath.Join(tree, "easel"), filepath.Join(tree, "source.tar")
	for _, words := range [][]string{
		{"git", "-C", proctest.Root, "archive", "--output", source, commit},
		{"tar", "-x", "-C", tree, "-f", source},
		{"go", "build", "-C", tree, "-buildvcs=false", "-o", program, "./cmd/easel"},
	} {
		command := exec.CommandContext(t.Context(), words[0], words[1:]...)
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		proctest.Run(t, command)
	}
	return program
}

// As in an upgrade, the test starts an older server, starts a current server next to it, and stops the older one.
// As in a rollback, it then stops the current server and starts the older one again. Each server must find the
// orders that the other one has placed, and the journal must stay consistent.
func TestUpgradeAndRollbackKeepOrders(t *testing.T) {
	if *upgradeFrom == "" {
		t.Skip("takes minutes; .ci/nightly runs this test")
	}
	f, older, database := newCatalog(t, 1, "--speed", "50"), programOf(t, *upgradeFrom), proctest.Database(t)
	settings := f.Sharing(writeTeams(t), database).Settings()
	run := func(program string) *proctest.Process {
		p, err := proctest.TryLaunch(t, program, settings, "serve")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	placed := map[string]string{}
	order := func(served *proctest.Process, keys ...string) {
		t.Helper()
		for _, key := range keys {
			got := runProgram(t, map[string]string{"EASEL_ADDR": served.GRPC, "EASEL_API_KEY": "frame"}, "generate", "studio/haiku", "prompt=rain", "-q", "--idempotency-key", key)
			id := strings.TrimSpace(got.stdout)
			if before, known := placed[key]; got.exit != exitOK || id == "" || known && id != before {
				t.Errorf("key %s: got %q, earlier %q: exit %d, %s", key, id, before, got.exit, got.stderr)
			}
			placed[key] = id
		}
	}
	old := run(older)
	order(old, "first", "second")
	now := run(proctest.Easel(t))
	order(now, "first", "third")
	order(old, "second", "third", "fourth")
	order(now, "fourth", "fifth")
	old.Stop()
	order(now, "second", "sixth")
	now.Stop()
	old = run(older)
	order(old, "fifth", "sixth", "seventh")
	old.Stop()
	ids := map[string]bool{}
	for id := range maps.Values(placed) {
		ids[id] = true
	}
	if len(ids) != 7 {
		t.Errorf("got renders %v, want 7 different IDs", placed)
	}
	if verified := runProgram(t, map[string]string{"EASEL_LEDGER_URL": database}, "ledger", "verify"); verified.exit != exitOK || !strings.Contains(verified.stdout+verified.stderr, fmt.Sprint(len(ids))) {
		t.Errorf("ledger verify: exit %d\n%s%s", verified.exit, verified.stdout, verified.stderr)
	}
}
