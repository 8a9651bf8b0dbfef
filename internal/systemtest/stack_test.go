package systemtest

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // tests wait for processes most of the time
		panic(err)
	}
	os.Exit(proctest.Main(m))
}

// The exit codes that these tests tell apart, as `easel help` lists them.
const (
	exitOK         = 0
	exitCredential = 5
	exitRetry      = 6
)

// start runs a command until its output shows what ready looks for. Its environment is what is
// given and nothing else.
func start(t *testing.T, env map[string]string, ready func(stdout, stderr string) bool, args ...string) *proctest.Process {
	t.Helper()
	p := proctest.Start(t, environ(env), append([]string{proctest.Easel(t)}, args...)...)
	p.Ready(t, ready)
	return p
}

// serve starts a server on free ports.
func serve(t *testing.T, settings map[string]string) *proctest.Process {
	t.Helper()
	env := map[string]string{"EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0"}
	maps.Copy(env, settings)
	return start(t, env, listening, "serve")
}

// address is where a server listens for grpc, http or admin.
func address(t *testing.T, served *proctest.Process, server string) string {
	t.Helper()
	return proctest.Find(t, `"server":"`+server+`","addr":"([^"]+)"`, served.Stderr.String())
}

func environ(env map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

// listening reports whether the logs of a server show its three addresses.
func listening(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 3 }

// printsKey reports whether a sandbox has printed all that it prints.
func printsKey(stdout, _ string) bool { return strings.Contains(stdout, "easel serve") }

// printed is what a command that has ended has left.
type printed struct {
	exit           int
	stdout, stderr string
}

// easel runs a command to its end.
func easel(t *testing.T, env map[string]string, args ...string) printed {
	t.Helper()
	p := proctest.Start(t, environ(env), append([]string{proctest.Easel(t)}, args...)...)
	exit, err := p.Wait(2 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return printed{exit, p.Stdout.String(), p.Stderr.String()}
}

// startDev starts the whole stack on free ports, and gives the environment of its clients.
func startDev(t *testing.T, flags ...string) map[string]string {
	t.Helper()
	dev := start(t, nil, proctest.DevReady, proctest.Dev(flags...)...)
	return proctest.DevClients(t, dev.Stdout.String())
}

// tool finds a program that is not ours, or skips what needs it.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("%s is not on this machine: what needs it is NOT checked", names[0])
	return ""
}

// waitFor looks again and again until something is there, and else fails with what is said.
func waitFor(t *testing.T, what string, there func() bool, said func() string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !there(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s\n%s", what, said())
		}
	}
}

// readFile gives a file of the repository.
func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{proctest.Root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
