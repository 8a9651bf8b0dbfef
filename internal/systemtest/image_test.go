package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// isSeenByDocker reports whether a file is in Docker's build context. The last line of .dockerignore that matches the
// file or one of its directories decides this.
func isSeenByDocker(lines []string, file string) bool {
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

func TestDockerBuildContextSufficesToBuildProgram(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	lines := strings.Split(proctest.Read(t, ".dockerignore"), "\n")
	for name, data := range workingTree(t) {
		if isSeenByDocker(lines, name) {
			write(t, filepath.Join(work, filepath.FromSlash(name)), data)
		}
	}
	copies := regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(proctest.Read(t, "deploy", "Dockerfile"), -1)
	if len(copies) < 5 {
		t.Errorf("the Dockerfile copies only %v", copies)
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
