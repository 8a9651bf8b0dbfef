package systemtest

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // 8 even on a machine with fewer processors, because the tests mostly wait for processes
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

// printed is the result of a command: its exit code and its output.
type printed struct {
	exit           int
	stdout, stderr string
}

// runProgram runs the program easel with the given arguments, and returns the result.
func runProgram(t testing.TB, env map[string]string, args ...string) printed {
	t.Helper()
	p := proctest.Start(t, proctest.Environ(env), append([]string{proctest.Easel(t)}, args...)...)
	exit, err := p.Wait(2 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return printed{exit, p.Stdout.String(), p.Stderr.String()}
}

// callerOf returns the environment variables for a client of the server that 'easel dev' runs.
func callerOf(dev *proctest.Process) map[string]string {
	return map[string]string{"EASEL_ADDR": dev.GRPC, "EASEL_API_KEY": dev.Key}
}

// tool returns the path of the first program in names that is installed. If none is installed, it skips the test.
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

// waitFor waits until isMet returns true, and fails the test after 30 s. The failure message contains the string
// condition and the result of describe().
func waitFor(t testing.TB, condition string, isMet func() bool, describe func() string) {
	t.Helper()
	proctest.Eventually(t, 30*time.Second, condition, isMet, describe)
}

// sqliteLedger returns the URL of a ledger in a new SQLite file.
func sqliteLedger(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") }
