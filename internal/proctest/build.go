package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built contains the paths of the programs that this test process has built, keyed by the paths of their commands.
var built struct {
	mu       sync.Mutex
	dir      string
	programs map[string]string
}

// Build builds a command of this module, and returns the program's path. It builds each command once for all tests of
// a package: statically linked and without the race detector, as in the Makefile. path is the path of the command,
// relative to [Root].
func Build(t testing.TB, path string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if program := built.programs[path]; program != "" {
		return program
	}
	program := filepath.Join(built.dir, filepath.Base(path))
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", program, path)
	command.Dir, command.Env = Root, append(os.Environ(), "CGO_ENABLED=0")
	Run(t, command)
	built.programs[path] = program
	return program
}

// Easel builds the easel program, and returns its path.
func Easel(t testing.TB) string {
	t.Helper()
	return Build(t, "./cmd/easel")
}

// Main runs the tests of a package, and returns the exit code for the test process. TestMain must call it if the tests
// build programs or call [Database].
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "easel-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer stopCluster()
	built.dir, built.programs = dir, map[string]string{}
	return m.Run()
}
