package systemtest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

const module = "github.com/easel-grpc/easel"

// published lists the directories of the published modules.
var published = []string{".", "clients/go", "gen/go"}

// goCommand runs the go command outside the workspace, as a user of the modules would, and returns its output. proxy
// is the directory with Easel's modules. All other modules come from the module cache or the configured GOPROXY.
func goCommand(t *testing.T, dir, proxy string, arguments ...string) string {
	t.Helper()
	fetched, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, usual, _ := strings.Cut(strings.TrimSpace(string(fetched)), "\n")
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-modcacherw -trimpath -buildvcs=false", "GOSUMDB=off",
		"GOMODCACHE="+filepath.Join(proxy, "fetched"), "GOBIN="+filepath.Join(proxy, "bin"),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+usual)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, &stderr)
	}
	return stdout.String()
}

// goModule contains the fields of a go.mod file that the tests check.
type goModule struct {
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct{}
}

func readModule(t *testing.T, dir string) (found goModule) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	command.Dir = dir
	text, err := command.Output()
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// publishModules creates a directory that serves as a module proxy, and returns its path. The directory contains the
// published modules in the state of the working tree, under the given version.
func publishModules(t *testing.T, version string) (proxy string) {
	t.Helper()
	proxy = t.TempDir()
	files := workingTree(t, "*.go", "*go.mod", "*LICENSE", "cmd", "internal", "deploy", "gen/openapi", "gen/easel.binpb")
	for _, dir := range published {
		path := filepath.ToSlash(filepath.Join(module, dir))
		at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
		inside := map[string]string{}
		for name, data := range files {
			if moduleOf(name, files) == dir {
				inside[path+"@"+version+"/"+strings.TrimPrefix(name, dir+"/")] = data
			}
		}
		for name, data := range map[string]string{
			"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`, version + ".mod": files[filepath.Join(dir, "go.mod")], version + ".zip": zipped(t, inside),
		} {
			write(t, filepath.Join(at, name), data)
		}
	}
	return proxy
}

// workingTree returns the contents of the files in the working tree, keyed by file name, except files that git ignores.
// If there are patterns, it returns only the files that match one of them.
func workingTree(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard"}, patterns...)...)
	list.Dir = proctest.Root
	files := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimRight(proctest.Run(t, list), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(proctest.Root, name))
		if os.IsNotExist(err) {
			continue // the file is deleted, but the deletion is not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	return files
}

// moduleOf returns the directory of the module that contains a file.
func moduleOf(name string, files map[string]string) string {
	dir := filepath.Dir(name)
	for ; dir != "." && files[filepath.Join(dir, "go.mod")] == ""; dir = filepath.Dir(dir) {
	}
	return dir
}

func TestPublishedModulesAndChartShareOneVersion(t *testing.T) {
	t.Parallel()
	versions, work := map[string]bool{}, proctest.Read(t, "go.work")
	for _, dir := range published {
		found := readModule(t, filepath.Join(proctest.Root, dir))
		for _, required := range found.Require {
			if required.Path == module || strings.HasPrefix(required.Path, module+"/") {
				versions[required.Version] = true
				if replaced := required.Path + " " + required.Version + " => "; !strings.Contains(work, replaced) {
					t.Errorf("go.work has no %q", replaced)
				}
			}
		}
		if len(found.Replace) > 0 {
			t.Errorf("go install rejects a module with a replace directive: %s", dir)
		}
		if dir != "." && !strings.HasPrefix(found.Go, "1.24") {
			t.Errorf("%s forces its importers to use Go %s", dir, found.Go)
		}
	}
	versions[proctest.Find(t, `(?m)^appVersion: (v\S+)$`, proctest.Read(t, "deploy", "helm", "easel", "Chart.yaml"))] = true
	versions["v"+proctest.Find(t, `(?m)^version: (\S+)$`, proctest.Read(t, "deploy", "helm", "easel", "Chart.yaml"))] = true
	if len(versions) != 1 {
		t.Errorf("the modules and the chart have the versions %v; set a single version with make version", versions)
	}
}

func TestTheModulesAreInstalledAndImportedFromAProxy(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(regexp.QuoteMeta(module+"/gen/go ") + `(v\S+)`).FindStringSubmatch(proctest.Read(t, "go.mod"))[1]
	proxy := publishModules(t, version)
	goCommand(t, proxy, proxy, "install", module+"/cmd/easel@"+version)
	if out, err := exec.CommandContext(t.Context(), filepath.Join(proxy, "bin", "easel"), "version").Output(); err != nil || !strings.Contains(string(out), version) {
		t.Errorf("the installed program prints %q, %v", out, err)
	}

	fresh := t.TempDir()
	source := "package main\n\nimport easel \"" + module + "/clients/go\"\n\nfunc main() { _ = easel.New }\n"
	for name, text := range map[string]string{"go.mod": "module example.com/fresh\n\ngo 1.24\n", "main.go": source} {
		proctest.Write(t, filepath.Join(fresh, name), text)
	}
	goCommand(t, fresh, proxy, "get", module+"/clients/go@"+version)
	goCommand(t, fresh, proxy, "build", "-o", filepath.Join(proxy, "bin", "fresh"), ".")
	linked := map[string]bool{}
	for path := range strings.Lines(goCommand(t, fresh, proxy, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")) {
		linked[strings.TrimSpace(path)] = true
	}
	found := readModule(t, fresh)
	t.Logf("an importer of the client requires %d modules, and links %d; the graph has %d, but most are required only by gRPC and never downloaded",
		len(found.Require), len(linked)-1, strings.Count(goCommand(t, fresh, proxy, "list", "-m", "all"), "\n"))
	if len(found.Require) > 15 || !strings.HasPrefix(found.Go, "1.24") {
		t.Errorf("an importer of the client requires %d modules and Go %s", len(found.Require), found.Go)
	}
}
