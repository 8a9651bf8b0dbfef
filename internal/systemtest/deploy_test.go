package systemtest

import (
	"cmp"
	"debug/elf"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
	"go.yaml.in/yaml/v3"
)

// deployedFiles returns the contents of all files in deploy/, keyed by path relative to deploy/.
func deployedFiles(t *testing.T) map[string]string {
	t.Helper()
	files, root := map[string]string{}, filepath.Join(proctest.Root, "deploy")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root+string(filepath.Separator))] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// settings returns the names of the environment variables that a command reads.
func settings(t *testing.T, command string) (names []string) {
	t.Helper()
	help := runProgram(t, nil, command, "--help").stdout
	for _, match := range regexp.MustCompile(`\$(EASEL_[A-Z_]*[A-Z])`).FindAllStringSubmatch(help, -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		t.Fatalf("easel %s has no settings", command)
	}
	return names
}

func TestEveryVariableInDeployFilesIsKnownSetting(t *testing.T) {
	known := slices.Concat(settings(t, "serve"), settings(t, "sandbox"), settings(t, "generate"))
	named := map[string]bool{}
	for path, text := range deployedFiles(t) {
		for _, name := range regexp.MustCompile(`\bEASEL_[A-Z_]*[A-Z]\b`).FindAllString(text, -1) {
			named[name] = true
			if !slices.Contains(known, name) {
				t.Errorf("deploy/%s contains %s, which no command reads", path, name)
			}
		}
	}
	if len(named) < 10 {
		t.Errorf("found only the variables %v", slices.Sorted(maps.Keys(named)))
	}
}

// port returns the port number in the default value of a setting.
func port(t *testing.T, setting string) string {
	t.Helper()
	return proctest.Find(t, `\$`+setting+`,\s+default\s+[^)]*:(\d+)\)`, runProgram(t, nil, "serve", "--help").stdout)
}

func TestPortsInDeployFilesMatchDefaultPorts(t *testing.T) {
	grpc, rest, admin := port(t, "EASEL_GRPC_ADDR"), port(t, "EASEL_HTTP_ADDR"), port(t, "EASEL_ADMIN_ADDR")
	const metrics = "9465" // the port is not read from the code, because EASEL_METRICS_ADDR has no default
	files := deployedFiles(t)
	for path, parts := range map[string][]string{
		"Dockerfile":              {"EXPOSE " + grpc + " " + rest + " " + admin + "\n"},
		"compose.yaml":            {"proxy:" + grpc, grpc + ":" + grpc, rest + ":" + rest, `EASEL_METRICS_ADDR: ":` + metrics + `"`},
		"compose/prometheus.yaml": {"port: " + metrics + "\n"},
		"envoy/envoy.yaml":        {"address: easel, port_value: " + grpc, "address: easel, port_value: " + rest, "0.0.0.0, port_value: " + grpc, "0.0.0.0, port_value: " + rest},
		"nginx/easel.conf":        {"server easel:" + grpc + ";", "server easel:" + rest + ";", "listen " + grpc + " ", "listen " + rest + ";"},
	} {
		for _, part := range parts {
			if !strings.Contains(files[path], part) {
				t.Errorf("%q is not in deploy/%s", part, path)
			}
		}
	}
}

// TestProxyTimeoutsExceedSilentPeriodsOfCalls checks that the proxies' timeouts exceed the longest period in
// which the server sends no message of a call: 60 s in a watch, because of heartbeats, and 10 minutes in a call with
// wait_timeout.
func TestProxyTimeoutsExceedSilentPeriodsOfCalls(t *testing.T) {
	limits := proctest.Read(t, "docs", "contract.md")
	for _, row := range []string{"before a heartbeat is sent, 1 to 60 s. If unset", "| `wait_timeout` | Duration | Maximum time to wait for an unfinished render, up to 10 minutes."} {
		if !strings.Contains(limits, row) {
			t.Fatalf("docs/contract.md does not contain %q", row)
		}
	}
	for path, pattern := range map[string]string{
		"nginx/easel.conf": `(?m)^ *(?:grpc|proxy)_read_timeout (\d+)s;`,
		"envoy/envoy.yaml": `\b(?:stream_)?idle_timeout: (\d+)s`,
	} {
		var watches, waits int
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(deployedFiles(t)[path], -1) {
			seconds, err := strconv.Atoi(match[1])
			switch {
			case err == nil && seconds > 600:
				waits++
			case err == nil && seconds > 60:
				watches++
			default:
				t.Errorf("deploy/%s has a timeout of only %s s", path, match[1])
			}
		}
		if watches < 2 || waits != 2 {
			t.Errorf("deploy/%s has %d timeouts for watches and %d for waits, want 2 of each for gRPC and REST", path, watches, waits)
		}
	}
}

// TestProgramIsStaticallyLinked checks that the program needs no shared libraries, because the image contains none. Programs
// are static only on Linux.
func TestProgramIsStaticallyLinked(t *testing.T) {
	file, err := elf.Open(proctest.Easel(t))
	if err != nil {
		t.Skipf("not a Linux program: %v", err)
	}
	defer file.Close()
	loader := slices.ContainsFunc(file.Progs, func(part *elf.Prog) bool { return part.Type == elf.PT_INTERP })
	if needed, err := file.ImportedLibraries(); loader || err == nil && len(needed) > 0 {
		t.Errorf("the program needs the libraries %v, and a loader: %v", needed, loader)
	}
}

func TestSystemdUnitMemoryMaxExceedsGOMEMLIMIT(t *testing.T) {
	unit := deployedFiles(t)["easel.service"]
	soft, softErr := strconv.Atoi(proctest.Find(t, `GOMEMLIMIT=(\d+)MiB`, unit))
	hard, hardErr := strconv.Atoi(proctest.Find(t, `(?m)^MemoryMax=(\d+)G$`, unit))
	if softErr != nil || hardErr != nil || soft >= hard<<10 {
		t.Errorf("GOMEMLIMIT is %d MiB and MemoryMax is %d GiB; want GOMEMLIMIT below MemoryMax", soft, hard)
	}
}

func TestSystemdUnitKeepsLedgerInStateDirectory(t *testing.T) {
	unit := deployedFiles(t)["easel.service"]
	directory := proctest.Find(t, `(?m)^StateDirectory=(\S+)$`, unit)
	if !strings.Contains(unit, "\nEnvironment=EASEL_LEDGER_URL=sqlite:%S/"+directory+"/") || !strings.Contains(unit, "\nProtectSystem=strict\n") {
		t.Errorf("the ledger is not in the state directory %s", directory)
	}
}

func TestDockerfileUsesBuildFlagsOfMakefile(t *testing.T) {
	image := proctest.Read(t, "deploy", "Dockerfile")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(proctest.Read(t, "go.mod"))[1]
	for _, part := range []string{
		"CGO_ENABLED=0", "-trimpath -buildvcs=false", `"-s -w -X main.version=$VERSION -X main.revision=$REVISION"`,
		"ARG GO_IMAGE=golang:" + version + "-", "\nFROM scratch\n", "\nCOPY LICENSE NOTICE /licenses/\nCOPY --from=build /THIRD_PARTY_LICENSES /licenses/\n", "\nUSER 65532:65532\n",
	} {
		if !strings.Contains(image, part) {
			t.Errorf("%q is not in deploy/Dockerfile", part)
		}
	}
	made := strings.NewReplacer("$(VERSION)", "$VERSION", "$(REVISION)", "$REVISION", "'", `"`).Replace(proctest.Read(t, "Makefile"))
	for _, part := range []string{"-trimpath -buildvcs=false", `"-s -w -X main.version=$VERSION -X main.revision=$REVISION"`} {
		if !strings.Contains(made, part) {
			t.Errorf("%q is not in the Makefile", part)
		}
	}
	for _, line := range strings.Split(proctest.Read(t, ".dockerignore"), "\n") {
		if path, kept := strings.CutPrefix(line, "!"); kept && !strings.HasPrefix(path, ".build/") { // files below .build are not checked, because they exist only after `make`
			if _, err := os.Stat(filepath.Join(proctest.Root, path)); err != nil {
				t.Errorf(".dockerignore: %v", err)
			}
		}
	}
}

// composition contains the fields of deploy/compose.yaml that the tests check.
type composition struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Volumes     []string          `yaml:"volumes"`
		DependsOn   any               `yaml:"depends_on"`
	} `yaml:"services"`
}

func readComposition(t *testing.T) (c composition) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(proctest.Read(t, "deploy", "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeFileReferencesExistingFilesAndServices(t *testing.T) {
	c := readComposition(t)
	host := regexp.MustCompile(`(?:^|://|@)([a-z]+):\d+`)
	for name, service := range c.Services {
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(filepath.Join(proctest.Root, "deploy", source)); err != nil {
				t.Errorf("%s mounts a missing file: %v", name, err)
			}
		}
		for variable, value := range service.Environment {
			if match := host.FindStringSubmatch(value); match != nil {
				if _, ok := c.Services[match[1]]; !ok {
					t.Errorf("%s of %s refers to %s, which is not a service", variable, name, match[1])
				}
			}
		}
		if _, tag, _ := strings.Cut(service.Image, ":"); service.Image != "easel" && (tag == "" || tag == "latest") {
			t.Errorf("%s has no fixed version: %q", name, service.Image)
		}
	}
	collector := proctest.Read(t, "deploy", "otel", "collector.yaml")
	for _, at := range []string{"endpoint: jaeger:4317", "0.0.0.0:4317"} {
		if !strings.Contains(collector, at) {
			t.Errorf("%q is not in deploy/otel/collector.yaml", at)
		}
	}
}

// TestComposeFileCommandsWork runs a stack with the commands that deploy/compose.yaml contains for the
// catalog, the bucket, the server and the client. Each command has the environment of its service, with local
// addresses.
func TestComposeFileCommandsWork(t *testing.T) {
	t.Parallel()
	c := readComposition(t)
	catalog, facade, client := c.environment(t, "catalog"), c.environment(t, "easel"), c.environment(t, "first-render")
	catalog["EASEL_SANDBOX_ADDR"] = "127.0.0.1:0"
	sandbox := proctest.Launch(t, catalog, c.Services["catalog"].Command...)
	facade["EASEL_UPSTREAM_URL"] = sandbox.Catalog
	facade["EASEL_LEDGER_URL"] = proctest.Database(t)
	bucket := proctest.RunBucket(t, proctest.Environ(c.Services["bucket"].Environment), c.Services["bucket"].Command...)
	facade["EASEL_CONTENT_URL"] = strings.Replace(facade["EASEL_CONTENT_URL"], "http://bucket:8333", bucket.Endpoint, 1)
	for _, setting := range []string{"EASEL_GRPC_ADDR", "EASEL_HTTP_ADDR", "EASEL_ADMIN_ADDR", "EASEL_METRICS_ADDR"} {
		facade[setting] = "127.0.0.1:0"
	}
	served := proctest.Launch(t, facade, c.Services["easel"].Command...)
	served.Ready(t, func(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 4 })
	client["EASEL_ADDR"] = served.GRPC
	if got := runProgram(t, client, c.Services["first-render"].Command...); got.exit != exitOK || !strings.Contains(got.stdout+got.stderr, "succeeded") {
		t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	waitFor(t, "copy of the first render", func() bool {
		return strings.HasPrefix(runProgram(t, copySettings(facade), "content", "verify", "--bytes").stdout, "1 copies of ")
	}, served.Stderr.String)
	client["EASEL_API_KEY"] = catalog["EASEL_SANDBOX_KEY"]
	if got := runProgram(t, client, "list"); got.exit == exitOK {
		t.Errorf("the shared API key is accepted as a caller's token: %s", got.stdout)
	}
}

// copySettings returns the server settings that 'easel content verify' needs to read copies of results.
func copySettings(server map[string]string) map[string]string {
	named := maps.Clone(server)
	maps.DeleteFunc(named, func(name, _ string) bool {
		return !strings.HasPrefix(name, "AWS_") && !slices.Contains([]string{"EASEL_LEDGER_URL", "EASEL_CONTENT_URL", "EASEL_UPSTREAM_INSECURE"}, name)
	})
	return named
}

// environment returns the environment of a service that runs Easel. It omits settings for telemetry, and replaces the
// paths of mounted files with local paths.
func (c composition) environment(t *testing.T, name string) map[string]string {
	t.Helper()
	service := c.Services[name]
	if service.Image != "easel" {
		t.Fatalf("%s does not run Easel", name)
	}
	files := map[string]string{}
	for _, volume := range service.Volumes {
		source, target, _ := strings.Cut(strings.TrimSuffix(volume, ":ro"), ":")
		files[target] = proctest.FromRoot(t, "deploy", source)
	}
	env := map[string]string{}
	for setting, value := range service.Environment {
		if !strings.HasPrefix(setting, "OTEL_") {
			env[setting] = cmp.Or(files[value], value)
		}
	}
	return env
}
