package systemtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

// eventSecret is the event secret that docs/operators.md uses with 'easel dev'.
const eventSecret = "whsec_ZWFzZWwgZGV2IHNpZ25zIGV2ZXJ5IGV2ZW50IHdpdGggdGhpcw=="

// TestDocumentedReceiversAcceptEveryEventType runs the receivers from docs/operators.md unchanged, and
// checks that they accept every type of event. They verify signatures and parse events with third-party
// libraries.
func TestDocumentedReceiversAcceptEveryEventType(t *testing.T) {
	t.Parallel()
	page, installed := proctest.Read(t, "docs", "operators.md"), proctest.FromRoot(t, ".build", "webhooks")
	for language, run := range map[string]struct{ fence, file, program string }{
		"Python": {"```python\n", "receiver.py", filepath.Join(installed, "python", "bin", "python")},
		"Node":   {"```js\n", "receiver.mjs", "node"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(installed); err != nil {
				t.Skip("the receivers' libraries are not installed (make test-system): receivers are NOT checked")
			}
			_, source, _ := strings.Cut(page, run.fence)
			source, _, _ = strings.Cut(source, "```")
			port := freePort(t)
			work := filepath.Join(installed, "run-"+strings.ToLower(language)) // below the directory that contains node_modules, so that Node.js finds the libraries
			if err := os.MkdirAll(work, 0o755); err != nil {
				t.Fatal(err)
			}
			write := func(name, text string) string {
				path := filepath.Join(work, name)
				proctest.Write(t, path, text)
				return path
			}
			command := exec.CommandContext(t.Context(), tool(t, run.program), write(run.file, strings.ReplaceAll(source, "9000", port)))
			command.Env = append(os.Environ(), "WEBHOOK_SECRET="+eventSecret)
			told := proctest.NewOutput()
			command.Stdout, command.Stderr = told, told
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
			other := "whsec_YW5vdGhlciBzZWNyZXQgdGhhdCBzaWducyBmcm9tIG5vdyBvbg=="
			file := write("callers.yaml", fmt.Sprintf("teams: {studio: {budget: {daily_cents: 40}, events: {url: \"http://127.0.0.1:%s/\", secret_file: %q}}}\n"+
				"callers: [{name: poster, team: studio, tokens: [%q]}]\n", port, write("secret", other+"\n"+eventSecret+"\n"), auth.Hash("poster-token")))
			dev := proctest.StartDev(t, "--callers", file, "--failure-rate", "0.5", "--speed", "4", "--db", filepath.Join(t.TempDir(), "dev.db"))
			orderUntilRefused(t, dev.GRPC)
			for _, kind := range []string{"generation.succeeded", "generation.failed", "generation.refunded", "generation.deleted", "budget.threshold"} {
				waitFor(t, "event of the type "+kind, func() bool { return strings.Contains(told.String(), "easel."+kind) }, func() string { return told.String() })
			}
			checkEventIDs(t, told.String())
		})
	}
}

// orderUntilRefused orders haikus until the budget is exhausted. Then it deletes one of the renders that
// succeeded.
func orderUntilRefused(t *testing.T, addr string) {
	t.Helper()
	for n := 0; ; n++ {
		got := runEasel(t, addr, "generate", "studio/haiku", "prompt=rain", "-q", "--idempotency-key", fmt.Sprint(n))
		if n > 100 || strings.Contains(got, "BUDGET_EXCEEDED") {
			break
		}
	}
	list := ""
	waitFor(t, "render that has succeeded", func() bool {
		list = runEasel(t, addr, "list", "--state", "succeeded", "-q")
		return strings.HasPrefix(list, "gen_")
	}, func() string { return list })
	runEasel(t, addr, "delete", strings.Fields(list)[0], "--force")
}

func runEasel(t *testing.T, addr string, args ...string) string {
	t.Helper()
	got := runProgram(t, map[string]string{"EASEL_ADDR": addr, "EASEL_API_KEY": "poster-token"}, args...)
	return got.stdout + got.stderr
}

// checkEventIDs checks that each event is always printed with the same ID, and that no two events have the same ID. It
// skips budget events.
func checkEventIDs(t *testing.T, told string) {
	t.Helper()
	ids, events := map[string]string{}, map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^(evt_\w+) (easel\.\S+) (\S+)`).FindAllStringSubmatch(told, -1) {
		id, event := found[1], found[2]+" "+found[3]
		if strings.Contains(event, "budget") {
			continue // a budget can have several events of the same type, one for each threshold, so their IDs are not compared
		}
		if ids[id] != "" && ids[id] != event || events[event] != "" && events[event] != id {
			t.Errorf("ID %s has the events %q and %q, or event %q already has the ID %q", id, ids[id], event, event, events[event])
		}
		ids[id], events[event] = event, id
	}
	if len(ids) < 5 {
		t.Errorf("only %d events were delivered:\n%s", len(ids), told)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}
