package systemtest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An idle server reloads changed files, and reports an invalid one.
func TestTheFilesOfTheSettingsAreFollowedWithoutACall(t *testing.T) {
	t.Parallel()
	f := newFacility(t, 1)
	f.served.Stop()
	key, callers := filepath.Join(t.TempDir(), "key"), teamsOf(t)
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(key, f.keys[0])
	whole, err := os.ReadFile(callers)
	if err != nil {
		t.Fatal(err)
	}
	f.serve(map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": callers, "EASEL_LEDGER_URL": "sqlite:" + filepath.Join(t.TempDir(), "book.db")})
	f.operator = "ops"
	status := func() string { return f.request(http.MethodGet, "http://"+f.admin+"/status.json", "") }
	for _, row := range []struct {
		when, text string
		broken     bool
	}{{"broken", "teams: {studio: [", true}, {"whole", string(whole), false}} {
		put(callers, row.text)
		waitFor(t, "word of the callers file when it is "+row.when, func() bool { return strings.Contains(status(), "is not applied") == row.broken }, status)
		if n := f.measured("easel_setting_broken", `easel_setting="EASEL_CALLERS_FILE"`); (n == 1) != row.broken {
			t.Errorf("when the callers file is %s, the metric is %v", row.when, n)
		}
	}
	for range 3 { // it triggers a reload and ends nothing
		if err := f.served.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	put(callers, strings.ReplaceAll(string(whole), "name: frame", "name: painter"))
	waitFor(t, "the change in the log", func() bool { return strings.Contains(f.served.Stderr.String(), "callers file has changed") }, f.served.Output.String)
	if f.watch("poster", 1, 0); f.served.Stop() != exitOK {
		t.Errorf("it has ended before its stop:\n%s", f.served.Stderr)
	}
}
