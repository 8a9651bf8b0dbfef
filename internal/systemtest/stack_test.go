package systemtest

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // more than the number of processors, because the tests mostly wait for processes
		panic(err)
	}
	os.Exit(proctest.Main(m))
}

// Exit codes that the tests distinguish. 'easel help' explains them.
const (
	exitOK         = 0
	exitCredential = 5
	exitRetry      = 6
)

// start starts a command with only the given environment, and waits until ready accepts its output.
func start(t *testing.T, env map[string]string, ready func(stdout, stderr string) bool, args ...string) *proctest.Process {
	t.Helper()
	p := proctest.Start(t, proctest.Environ(env), append([]string{proctest.Easel(t)}, args...)...)
	p.Ready(t, ready)
	return p
}

// printsKey reports whether a sandbox has printed its startup text, which contains the API key.
func printsKey(stdout, _ string) bool { return strings.Contains(stdout, "easel serve") }

// printed is the result of a command: its exit code and its output.
type printed struct {
	exit           int
	stdout, stderr string
}

// easel runs a command, and returns its result.
func easel(t *testing.T, env map[string]string, args ...string) printed {
	t.Helper()
	p := proctest.Start(t, proctest.Environ(env), append([]string{proctest.Easel(t)}, args...)...)
	exit, err := p.Wait(2 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return printed{exit, p.Stdout.String(), p.Stderr.String()}
}

// startDev runs 'easel dev' on free ports and returns the environment for its clients.
func startDev(t *testing.T, flags ...string) map[string]string {
	t.Helper()
	dev := start(t, nil, proctest.DevReady, proctest.Dev(flags...)...)
	return proctest.DevClients(t, dev.Stdout.String())
}

// tool returns the path of a third-party program. If the program is missing, it skips the test.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed: this test's subject is NOT checked", names[0])
	return ""
}

// waitFor waits until a condition is true, but at most 30 s. In the failure message, the argument what describes the
// condition, and the result of said follows.
func waitFor(t *testing.T, what string, there func() bool, said func() string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !there(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s\n%s", what, said())
		}
	}
}

// sqliteLedger returns the URL of a ledger in a new SQLite file.
func sqliteLedger(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") }

// put writes text to a file that only its owner can read.
func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fileOf writes text to a new file and returns the path.
func fileOf(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "file")
	put(t, file, text)
	return file
}

// readFile returns the content of a file in the repository.
func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{proctest.Root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
