package systemtest

import (
	"strings"
	"syscall"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// A server reloads changed files even if it receives no calls, and it reports invalid files.
func TestIdleServerReloadsChangedCallersFile(t *testing.T) {
	t.Parallel()
	f, callers := newCatalog(t, 1), writeTeams(t)
	whole := proctest.Read(t, callers)
	f.Sharing(callers, sqliteLedger(t)).Serve()
	f.Operator = "ops"
	for _, row := range []struct {
		when, text string
		broken     bool
	}{{"broken", "teams: {studio: [", true}, {"whole", whole, false}} {
		proctest.Write(t, callers, row.text)
		waitFor(t, "report about the callers file when it is "+row.when, func() bool { return strings.Contains(f.Status(), "be applied") == row.broken }, f.Status)
		if n := f.Measured("easel_setting_broken", `easel_setting="EASEL_CALLERS_FILE"`); (n == 1) != row.broken {
			t.Errorf("when the callers file is %s, the metric is %v", row.when, n)
		}
	}
	for range 3 { // SIGHUP triggers a reload and does not stop the server
		if err := f.Server.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	proctest.Write(t, callers, strings.ReplaceAll(whole, "name: frame", "name: painter"))
	waitFor(t, "the change in the log", func() bool { return strings.Contains(f.Server.Stderr.String(), "callers file has changed") }, f.Server.Output.String)
	if f.startWatches("poster", 1, 0); f.Server.Stop() != exitOK {
		t.Errorf("the server exited before it was stopped:\n%s", f.Server.Stderr)
	}
}
