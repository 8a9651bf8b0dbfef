package systemtest

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A server reloads changed files even if it receives no calls, and it reports invalid files.
func TestTheFilesOfTheSettingsAreFollowedWithoutACall(t *testing.T) {
	t.Parallel()
	f, callers := newCatalog(t, 1), teamsOf(t)
	whole, err := os.ReadFile(callers)
	if err != nil {
		t.Fatal(err)
	}
	f.serveShared(callers, sqliteLedger(t), nil)
	f.operator = "ops"
	status := func() string { return f.request(http.MethodGet, "http://"+f.admin+"/status.json", "") }
	for _, row := range []struct {
		when, text string
		broken     bool
	}{{"broken", "teams: {studio: [", true}, {"whole", string(whole), false}} {
		put(t, callers, row.text)
		waitFor(t, "report about the callers file when it is "+row.when, func() bool { return strings.Contains(status(), "be applied") == row.broken }, status)
		if n := f.measured("easel_setting_broken", `easel_setting="EASEL_CALLERS_FILE"`); (n == 1) != row.broken {
			t.Errorf("when the callers file is %s, the metric is %v", row.when, n)
		}
	}
	for range 3 { // SIGHUP triggers a reload and does not stop the server
		if err := f.served.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	put(t, callers, strings.ReplaceAll(string(whole), "name: frame", "name: painter"))
	waitFor(t, "the change in the log", func() bool { return strings.Contains(f.served.Stderr.String(), "callers file has changed") }, f.served.Output.String)
	if f.watch("poster", 1, 0); f.served.Stop() != exitOK {
		t.Errorf("the server exited before it was stopped:\n%s", f.served.Stderr)
	}
}
