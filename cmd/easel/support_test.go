package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestSecurityPolicyListsMinimumVersions(t *testing.T) {
	policy := proctest.Read(t, ".github", "SECURITY.md")
	for row, declared := range map[string]struct{ file, pattern string }{
		"Kubernetes":               {"deploy/helm/easel/Chart.yaml", `kubeVersion: ">=([0-9.]+)\.0-0"`},
		"Go, to import the client": {"clients/go/go.mod", `\ngo ([0-9.]+)\.0\n`},
		"Python":                   {"clients/python/pyproject.toml", `requires-python = ">=([0-9.]+)"`},
		"Node":                     {"clients/typescript/package.json", `"node": ">=([0-9.]+)"`},
		"Java":                     {"clients/java/pom.xml", `<maven.compiler.release>([0-9]+)<`},
	} {
		found := regexp.MustCompile(declared.pattern).FindStringSubmatch(proctest.Read(t, declared.file))
		if found == nil {
			t.Errorf("%s has no minimum version of %s", declared.file, row)
		} else if want := "| " + row + " | " + found[1] + " |"; !strings.Contains(policy, want) {
			t.Errorf("SECURITY.md has no row %q, which %s requires", want, declared.file)
		}
	}
}

func TestEachCodeOwnersPathExists(t *testing.T) {
	paths := 0
	for line := range strings.Lines(proctest.Read(t, ".github", "CODEOWNERS")) {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") || fields[0] == "*" {
			continue
		}
		paths++
		if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(fields[0]))); err != nil || len(fields) < 2 {
			t.Errorf("%q has a missing path or no owner: %v", strings.TrimSpace(line), err)
		}
	}
	if paths == 0 {
		t.Error("no path has owners")
	}
}
