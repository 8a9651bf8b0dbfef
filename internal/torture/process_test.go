//go:build unix

package torture

import (
	"context"
	"flag"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(proctest.Main(m))
}

// key is the API key for all orders. It exists only in the test's sandbox.
const key = "sandbox_live_torture"

// pauseProcess stops a process with SIGSTOP for the given time, and then continues it. If the process exits
// first, pauseProcess returns early.
func pauseProcess(p *proctest.Process, d time.Duration) {
	_ = p.Signal(syscall.SIGSTOP) // has no effect if the process has already exited
	select {
	case <-time.After(d):
	case <-p.Exited():
	}
	_ = p.Signal(syscall.SIGCONT)
}

// tail returns the end of a process's output, for failure messages.
func tail(p *proctest.Process) string {
	text := p.Output.String()
	return text[max(0, len(text)-4096):]
}

// storeFlags returns the flags that start a sandbox with its data in the given database file, followed by the
// additional flags.
func storeFlags(file string, flags ...string) []string {
	return append([]string{"--db", file, "--key", key, "--balance", "1000000.00", "--admin"}, flags...)
}

// The returned settings make an Easel server use the catalog at the given address.
func before(upstream string) proctest.Settings {
	return proctest.Settings{"EASEL_UPSTREAM_URL": "http://" + upstream + sandbox.BasePath}
}

// awaitCondition calls isMet until it returns true, and fails the test if this takes longer than 40 s. The string
// condition appears in the failure message.
func awaitCondition(t *testing.T, condition string, isMet func() bool) {
	t.Helper()
	proctest.Eventually(t, 40*time.Second, condition, isMet)
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
