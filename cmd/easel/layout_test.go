package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/easel-grpc/easel"

// allowed contains, for each package, the packages that it may import in addition to the standard library. A path that ends in
// "/" includes all packages below it.
var allowed = map[string][]string{
	"gen/go/easel/v1":           {"buf.build/gen/", "google.golang.org/"},
	"gen/gateway/easel/v1":      {module + "/gen/", "google.golang.org/", "github.com/grpc-ecosystem/grpc-gateway/v2/"},
	"clients/go":                {module + "/gen/", "google.golang.org/"},
	"gen/openapi":               {},
	"deploy":                    {},
	"internal/catalog":          {module + "/internal/limiter", "github.com/tidwall/gjson", "golang.org/x/sync/"},
	"internal/limiter":          {"golang.org/x/time/rate"},
	"internal/watch":            {module + "/internal/catalog", module + "/internal/limiter", module + "/internal/ledger", module + "/internal/ledger/lifecycle", module + "/internal/watch/"},
	"internal/watch/history":    {module + "/internal/catalog", module + "/internal/watch/schedule"},
	"internal/watch/schedule":   {}, // this package must not have side effects, so it may import only the standard library
	"internal/reload":           {},
	"internal/service":          {module + "/gen/", module + "/internal/auth", module + "/internal/catalog", module + "/internal/events", module + "/internal/content", module + "/internal/ledger", module + "/internal/ledger/lifecycle", module + "/internal/orders", module + "/internal/reload", module + "/internal/watch", "github.com/tidwall/gjson", "go.opentelemetry.io/otel/trace", "google.golang.org/", "golang.org/x/sync/"},
	"internal/ledger":           {module + "/internal/ledger/lifecycle", "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgconn", "github.com/jackc/pgx/v5/stdlib", "go.opentelemetry.io/", "modernc.org/sqlite"},
	"internal/ledger/lifecycle": {}, // may import only the standard library, because it must not have side effects

	"internal/content":               {module + "/internal/catalog", module + "/internal/jobs", module + "/internal/ledger", "github.com/minio/minio-go/v7", "github.com/minio/minio-go/v7/pkg/credentials"},
	"internal/jobs":                  {module + "/internal/catalog", module + "/internal/ledger"},
	"internal/events":                {module + "/internal/jobs", module + "/internal/ledger", module + "/internal/reload", "go.opentelemetry.io/otel", "go.opentelemetry.io/otel/"},
	"internal/orders":                {module + "/internal/jobs", module + "/internal/limiter", module + "/internal/catalog", module + "/internal/ledger", module + "/internal/ledger/lifecycle", module + "/internal/watch", "go.opentelemetry.io/otel", "go.opentelemetry.io/otel/"},
	"internal/crossorigin":           {module + "/gen/", module + "/internal/service", "google.golang.org/"},
	"internal/server":                {module + "/gen/", module + "/internal/auth", module + "/internal/reload", module + "/internal/service", "google.golang.org/", "go.opentelemetry.io/", "buf.build/", "golang.org/x/"},
	"internal/rest":                  {module + "/gen/", module + "/internal/crossorigin", module + "/internal/rest/console", module + "/internal/service", "google.golang.org/", "github.com/grpc-ecosystem/grpc-gateway/v2/", "github.com/tidwall/gjson", "go.opentelemetry.io/"},
	"internal/admin":                 {module + "/gen/", module + "/internal/catalog", module + "/internal/content", module + "/internal/limiter", module + "/internal/crossorigin", module + "/internal/ledger", module + "/internal/ledger/lifecycle", module + "/internal/service", module + "/internal/telemetry", module + "/internal/watch", "google.golang.org/"},
	"internal/rest/page":             {},
	"internal/rest/console":          {},
	"internal/server/servertest":     {module + "/gen/", module + "/internal/auth", module + "/internal/proctest", module + "/internal/service", "google.golang.org/", "go.opentelemetry.io/"},
	"internal/telemetry":             {module + "/internal/limiter", module + "/internal/catalog", module + "/internal/ledger", module + "/internal/watch", "go.opentelemetry.io/", "github.com/prometheus/", "golang.org/x/sync/errgroup", "golang.org/x/time/rate"},
	"internal/sandbox":               {module + "/internal/sandbox/paint", "golang.org/x/time/rate", "modernc.org/sqlite"},
	"internal/sandbox/paint":         {},
	"internal/simulation":            {}, // contains only test code
	"internal/promises":              {module + "/gen/", module + "/internal/catalog", module + "/internal/ledger", module + "/internal/ledger/lifecycle", module + "/internal/sandbox", "google.golang.org/"},
	"internal/bench":                 {module + "/gen/", module + "/internal/proctest", "google.golang.org/", "github.com/grpc-ecosystem/", "go.opentelemetry.io/", "github.com/prometheus/", "buf.build/", "golang.org/x/"},
	"internal/auth":                  {module + "/deploy", module + "/gen/", module + "/internal/catalog", module + "/internal/reload", "google.golang.org/grpc/metadata", "github.com/go-jose/go-jose/v4", "github.com/go-jose/go-jose/v4/jwt", "github.com/santhosh-tekuri/jsonschema/v6", "github.com/santhosh-tekuri/jsonschema/v6/kind", "go.yaml.in/yaml/v3"},
	"internal/cli":                   {module + "/gen/", module + "/clients/go", module + "/internal/terminal", "github.com/alecthomas/kong", "github.com/dustin/go-humanize", "google.golang.org/"},
	"internal/doctor":                {module + "/internal/catalog", module + "/internal/terminal"},
	"internal/terminal":              {"github.com/mattn/go-runewidth", "golang.org/x/term"},
	"internal/terminal/terminaltest": {},                                                                                      // only tests import this package
	"internal/torture":               {},                                                                                      // contains only test code
	"internal/clients":               {},                                                                                      // contains only test code
	"internal/systemtest":            {},                                                                                      // contains only test code
	"internal/siege":                 {},                                                                                      // contains only test code
	"internal/proctest":              {"github.com/jackc/pgx/v5/stdlib", "google.golang.org/grpc", "google.golang.org/grpc/"}, // only tests and the benchmarks import this package
}

// goList returns the imports of each package in the module. It ignores the imports of tests.
func goList(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		imports[strings.TrimPrefix(words[0], module+"/")] = words[1:]
	}
	return imports
}

func TestPackagesImportOnlyAllowedPackages(t *testing.T) {
	packages := goList(t)
	for name := range allowed {
		if _, ok := packages[name]; !ok {
			t.Errorf("%s is in the table but not in the module", name)
		}
	}
	for name, imports := range packages {
		if strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "clients/go/example") {
			continue // commands may import all packages
		}
		may, ok := allowed[name]
		if !ok {
			t.Errorf("%s is not in the table of packages", name)
			continue
		}
		for _, path := range imports {
			if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			if !slices.ContainsFunc(may, func(m string) bool { return path == m || strings.HasSuffix(m, "/") && strings.HasPrefix(path, m) }) {
				t.Errorf("%s must not import %s", name, path)
			}
		}
	}
}

func TestProgramContainsNoTestPackages(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"/cmd/easel").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		if path = strings.TrimSpace(path); path == "testing" || strings.HasSuffix(path, "test") && strings.HasPrefix(path, module) {
			t.Errorf("the program imports %s", path)
		}
	}
}

func TestTopLevelContainsOnlyAllowedFiles(t *testing.T) {
	want := []string{
		"CHANGELOG.md", "LICENSE", "Makefile", "NOTICE", "README.md", "buf.gen.yaml", "buf.yaml", "clients", "cmd", "deploy", "docs", "gen", "go.mod", "go.sum", "go.work", "go.work.sum", "internal", "proto",
	}
	entries, err := os.ReadDir(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		built := e.Name() == "bin" || regexp.MustCompile(`^easel-demo|\.png(\.key)?$|^(order|openapi)\.json$|^pictures$`).MatchString(e.Name()) // git ignores these files
		if !strings.HasPrefix(e.Name(), ".") && !built && !slices.Contains(want, e.Name()) {
			t.Errorf("%s is not allowed at the top level", e.Name())
		}
	}
}
