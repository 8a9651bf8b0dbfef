package systemtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// seenByDocker reports whether a file is in Docker's build context. The last line of .dockerignore that matches the
// file or one of its directories decides this.
func seenByDocker(lines []string, file string) bool {
	seen := true
	for _, line := range lines {
		pattern, kept := strings.CutPrefix(line, "!")
		if pattern == "" || strings.HasPrefix(pattern, "#") {
			continue
		}
		expression := strings.NewReplacer(`\*\*/`, `(.*/)?`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(pattern))
		if regexp.MustCompile(`^` + expression + `(/.*)?$`).MatchString(file) {
			seen = kept
		}
	}
	return seen
}

// copyContext copies the files of the working tree that are in Docker's build context to a directory.
func copyContext(t *testing.T, to string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = proctest.Root
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(proctest.Read(t, ".dockerignore"), "\n")
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		if !seenByDocker(lines, name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(proctest.Root, name))
		if os.IsNotExist(err) {
			continue // the file is deleted, but the deletion is not committed
		}
		path := filepath.Join(to, filepath.FromSlash(name))
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755)); err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheImageIsBuiltFromWhatDockerSees(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	copyContext(t, work)
	copies := regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(proctest.Read(t, "deploy", "Dockerfile"), -1)
	if len(copies) < 5 {
		t.Errorf("the Dockerfile copies %v", copies)
	}
	for _, copied := range copies {
		for _, name := range strings.Fields(copied[1]) {
			if _, err := os.Stat(filepath.Join(work, name)); err != nil {
				t.Errorf("the Dockerfile copies a file that is not in its context: %v", err)
			}
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(work, "easel"), "./cmd/easel")
	build.Dir, build.Env = work, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=", "GOFLAGS=-mod=readonly")
	proctest.Run(t, build)
}
