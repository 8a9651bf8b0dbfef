package systemtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
	"go.yaml.in/yaml/v3"
)

// workflow contains the fields of a file in .github/workflows that the tests check.
type workflow struct {
	Permissions any
	Jobs        map[string]struct {
		Permissions map[string]string
		Environment any
		Steps       []struct {
			Uses, Run string
			Env, With map[string]string
		}
	}
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	root := filepath.Join(proctest.Root, ".github", "workflows")
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) == 0 {
		t.Fatalf("found %d workflows, want at least 1: %v", len(entries), err)
	}
	found := map[string]workflow{}
	for _, e := range entries {
		var w workflow
		if err := yaml.Unmarshal([]byte(proctest.Read(t, ".github", "workflows", e.Name())), &w); err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		found[e.Name()] = w
	}
	return found
}

func TestEveryActionOfAWorkflowIsPinnedByItsCommit(t *testing.T) {
	used := 0
	for name, w := range workflows(t) {
		if w.Permissions == nil {
			t.Errorf("%s does not limit its permissions", name)
		}
		for line := range strings.Lines(proctest.Read(t, ".github", "workflows", name)) {
			if !strings.Contains(line, "uses:") {
				continue
			}
			used++
			if !regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+\n$`).MatchString(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	if used < 5 {
		t.Errorf("found only %d actions", used)
	}
}

func TestWorkflowJobWithCredentialsRunsNoBuild(t *testing.T) {
	harmless := regexp.MustCompile(`^(actions/checkout|actions/download-artifact|actions/attest|docker/login-action)@`)
	publishing := 0
	for name, w := range workflows(t) {
		for job, j := range w.Jobs {
			holds := slices.Contains(slices.Collect(maps.Values(j.Permissions)), "write") || j.Environment != nil
			for _, step := range j.Steps {
				holds = holds || strings.HasPrefix(step.Uses, "docker/login-action@") || strings.Contains(fmt.Sprint(step.Env), "secrets.")
			}
			if !holds {
				continue
			}
			publishing++
			for _, step := range j.Steps {
				if step.Run != "" && step.Run != ".ci/publish" || step.Uses != "" && !harmless.MatchString(step.Uses) {
					t.Errorf("%s: job %s has credentials and runs %s%s", name, job, step.Uses, step.Run)
				}
			}
		}
	}
	if publishing != 1 {
		t.Errorf("%d jobs have credentials, want 1", publishing)
	}
	script := proctest.Read(t, ".ci", "publish")
	if tools := regexp.MustCompile(`\b(make|npm|npx|pip|mvn|go|cargo|docker) `).FindString(script); tools != "" || !strings.Contains(script, "gh release create") {
		t.Errorf(".ci/publish runs %q in\n%s", tools, script)
	}
}

func TestReleaseUsesBuildFlagsOfMakefile(t *testing.T) {
	var config struct {
		Builds []struct {
			Env, Flags, LDFlags, GOOS, GOARCH []string
		}
		Archives []struct{ Files []struct{ Src string } }
		SBOMs    []any `yaml:"sboms"`
	}
	if err := yaml.Unmarshal([]byte(proctest.Read(t, ".goreleaser.yaml")), &config); err != nil || len(config.Builds) != 1 {
		t.Fatalf("got %d builds, want 1: %v", len(config.Builds), err)
	}
	if len(config.Archives) != 1 || !slices.Contains(config.Archives[0].Files, struct{ Src string }{".build/THIRD_PARTY_LICENSES"}) {
		t.Errorf("the archives lack the dependencies' licenses: %+v", config.Archives)
	}
	b := config.Builds[0]
	made := strings.NewReplacer("$(VERSION)", "{{ .Tag }}", "$(REVISION)", "{{ .FullCommit }}").Replace(proctest.Read(t, "Makefile"))
	for _, part := range []string{"CGO_ENABLED=0 ", strings.Join(b.Flags, " ") + " -ldflags '" + strings.Join(b.LDFlags, " ") + "'"} {
		if !strings.Contains(made, part) {
			t.Errorf("the Makefile does not build with %s", part)
		}
	}
	if !slices.Equal(b.Env, []string{"CGO_ENABLED=0"}) || !slices.Equal(b.GOOS, []string{"linux", "darwin"}) || !slices.Equal(b.GOARCH, []string{"amd64", "arm64"}) || len(config.SBOMs) != 1 {
		t.Errorf("the release configuration has wrong variables, platforms or SBOMs: %+v", config)
	}
}
