package clients

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// services contains the programs on the client libraries' pages, by the language of the code block. file is the file
// name of the program. The commands build and start run in the directory of this file.
var services = map[string]struct {
	file         string
	build, start []string
}{
	"go":     {"main.go", []string{"go", "build", "-C", root, "-o", "DIR/service", "DIR/main.go"}, []string{"DIR/service"}},
	"python": {"service.py", []string{root + "/.build/clients/python/bin/mypy", "--strict", "service.py"}, []string{root + "/.build/clients/python/bin/python", "service.py"}},
	"java": {
		"Service.java",
		[]string{"javac", "-Xlint:all,-processing", "-Werror", "-cp", root + "/.build/clients/java/lib/*", "-d", ".", "Service.java"},
		[]string{"java", "-cp", ".:" + root + "/.build/clients/java/lib/*", "Service"},
	},
	"typescript": {"service.mts", []string{"sh", "-c", compile + " service.mts"}, []string{"node", "service.mjs"}},
}

// compile is the command that compiles a TypeScript program with the package.
const compile = "ln -s " + root + "/.build/clients/typescript/node_modules && node_modules/.bin/tsc --strict --target es2022 --module nodenext --types node"

// root is a placeholder for the root of the repository in commands.
const root = "ROOT"

// TestTheServicesOfThePagesGoOnThroughKillsAndSilence runs each service unchanged, outside the repository.
func TestTheServicesOfThePagesGoOnThroughKillsAndSilence(t *testing.T) {
	t.Parallel() // the test mostly waits
	for language, service := range services {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(strings.Split(*languages, ","), language) {
				t.Skip("-languages excludes this language")
			}
			blocks := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(readFile(t, pageOf(language))), -1)
			if len(blocks) != 1 || strings.Count(blocks[0][1], "\n") > 45+strings.Count(blocks[0][1], "\n\n") {
				t.Fatalf("the page must have one service of at most 45 lines: %q", blocks)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, service.file), []byte(blocks[0][1]), 0o600); err != nil {
				t.Fatal(err)
			}
			build(t, dir, service.build)
			restartUnder(t, dir, placed(t, dir, service.start))
		})
	}
}

// build runs the command that builds a program in a directory.
func build(t *testing.T, dir string, words []string) {
	t.Helper()
	words = placed(t, dir, words)
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Dir = dir
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}

// placed replaces the placeholders for directories in a command.
func placed(t *testing.T, dir string, words []string) (found []string) {
	t.Helper()
	root, err := filepath.Abs(proctest.Root)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range words {
		found = append(found, strings.NewReplacer("ROOT", root, "DIR", dir).Replace(word))
	}
	return found
}

// restartUnder runs a service. While the service watches, the test kills both the service and the server, and freezes
// the connection.
func restartUnder(t *testing.T, dir string, command []string) {
	t.Helper()
	s, key := startStack(t, "--ledger-url", "sqlite:"+filepath.Join(t.TempDir(), "ledger.db")), "sandbox_live_of_a_service"
	s.admin(t, http.MethodPost, "keys", `{"name":"service","balanceCents":5000,"key":"`+key+`"}`, nil)
	s.hold(t)
	wire := newWire(t, s.addr)
	env := append(os.Environ(), "EASEL_ADDR="+wire.addr, "EASEL_API_KEY="+key)
	start := func() *proctest.Process {
		run := proctest.Start(t, env, append([]string{"sh", "-c", `cd "$0" && exec "$@"`, dir}, command...)...)
		must(t)(run.Await(0, `(QUEUED)`, patience))
		return run
	}
	start().Kill() // the next run must find the order, either in its journal or by the idempotency key
	s.awaitWatches(t, 0)
	run := start()
	for _, end := range []func(*proctest.Process){func(p *proctest.Process) { p.Stop() }, (*proctest.Process).Kill} {
		s.awaitWatches(t, 1)
		end(s.facade)
		s.serve(t)
	}
	s.awaitWatches(t, 1)
	if wire.freeze() == 0 {
		t.Fatal("there was nothing to freeze")
	}
	s.admin(t, http.MethodDelete, "faults", "", nil)
	code, err := run.Wait(patience)
	said := run.Output.String()
	if err != nil || code != 0 || !regexp.MustCompile(`studio/landscape 1 orders \d+ cents`).MatchString(said) {
		t.Fatalf("the service exited with %d, %v:\n%s", code, err, said)
	}
	t.Log(said)
	var b catalogAudit
	s.admin(t, http.MethodGet, "audit?key="+key, "", &b)
	if len(b.Generations) != 1 || b.Generations[0].Charges != 1 {
		t.Fatalf("the catalog's audit is %+v", b)
	}
	if got := readFile(t, filepath.Join(dir, "hills.png")); !bytes.Equal(got, s.content(t, key, b.Generations[0].ID)) {
		t.Errorf("the file has %d bytes that differ from the catalog's bytes", len(got))
	}
}
