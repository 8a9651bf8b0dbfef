package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// services contains the example programs from the client libraries' documentation pages, keyed by the language of the
// code block.
var services = map[string]struct {
	file         string   // name under which the program is saved
	build, start []string // commands that build and start the program in its directory
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

// compile is the command that compiles a TypeScript program against the built package.
const compile = "ln -s " + root + "/.build/clients/typescript/node_modules && node_modules/.bin/tsc --strict --target es2022 --module nodenext --types node"

// root is a placeholder in commands. It is replaced by the root of the repository.
const root = "ROOT"

// TestExampleServicesFinishDespiteKillsAndFrozenConnection runs each example service from the documentation unchanged,
// outside the repository. The test kills the service, stops and kills the server, and freezes the connection. The
// service must still finish its job.
func TestExampleServicesFinishDespiteKillsAndFrozenConnection(t *testing.T) {
	t.Parallel() // runs in parallel, because the test mostly waits
	for language := range services {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(strings.Split(*languages, ","), language) {
				t.Skip("-languages excludes this language")
			}
			restartUnder(t, installService(t, language), language)
		})
	}
}

// installService builds the example service from a language's documentation page in a new directory, and returns that
// directory.
func installService(t *testing.T, language string) (dir string) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(proctest.Read(t, pageOf(language)), -1)
	if len(blocks) != 1 || strings.Count(blocks[0][1], "\n") > 45+strings.Count(blocks[0][1], "\n\n") {
		t.Fatalf("the page must have one service of at most 45 lines: %q", blocks)
	}
	dir = t.TempDir()
	proctest.Write(t, filepath.Join(dir, services[language].file), blocks[0][1])
	build(t, dir, services[language].build)
	return dir
}

// startService starts the service in a directory and waits until it watches a queued render.
func startService(t *testing.T, dir, language, addr, key string) *proctest.Process {
	t.Helper()
	words := append([]string{"sh", "-c", `cd "$0" && exec "$@"`, dir}, replacePlaceholders(t, dir, services[language].start)...)
	run := proctest.Start(t, append(os.Environ(), "EASEL_ADDR="+addr, "EASEL_API_KEY="+key), words...)
	must(t)(run.Await(0, `(QUEUED)`, patience))
	return run
}

// checkService waits until a service exits successfully, and checks that its output matches a pattern. Then it checks
// that the service has placed a single order with the API key, and that hills.png in dir contains the result of that
// order.
func (s stack) checkService(run *proctest.Process, pattern, dir, key string) {
	s.Helper()
	code, err := run.Wait(patience)
	said := run.Output.String()
	if err != nil || code != 0 || !regexp.MustCompile(pattern).MatchString(said) {
		s.Fatalf("the service exited with %d, %v:\n%s", code, err, said)
	}
	s.Log(said)
	if got := proctest.Read(s, dir, "hills.png"); got != s.readContent(key, s.onlyOrder(key)) {
		s.Errorf("the file of %d bytes differs from the catalog's content", len(got))
	}
}

// build runs a command that builds a program. words contains the command and its arguments, and dir is its working
// directory.
func build(t *testing.T, dir string, words []string) {
	t.Helper()
	words = replacePlaceholders(t, dir, words)
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Dir = dir
	proctest.Run(t, command)
}

// replacePlaceholders returns the given words. It replaces ROOT with the path of the repository, and DIR with dir.
func replacePlaceholders(t *testing.T, dir string, words []string) (found []string) {
	t.Helper()
	for _, word := range words {
		found = append(found, strings.NewReplacer("ROOT", proctest.FromRoot(t), "DIR", dir).Replace(word))
	}
	return found
}

// restartUnder kills and restarts a service. While the service watches its render, the server is restarted after a stop
// and after a kill, and the connection freezes. The service must still finish its job.
func restartUnder(t *testing.T, dir, language string) {
	t.Helper()
	s, key := startStack(t, proctest.Settings{"EASEL_LEDGER_URL": "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")}), "sandbox_live_of_a_service"
	s.addKey(key)
	s.holdRenders()
	wire := proctest.NewWire(t, s.Server.GRPC)
	start := func() *proctest.Process { return startService(t, dir, language, wire.Address, key) }
	start().Kill() // the next run must find the order that this run has placed, either in the service's journal or by the idempotency key
	s.awaitWatches(0)
	run := start()
	for _, end := range []func(){func() { s.Server.Stop() }, func() { s.Server.Kill() }} {
		s.awaitWatches(1)
		end()
		s.Serve()
	}
	s.awaitWatches(1)
	if wire.Freeze() == 0 {
		t.Fatal("no open connection to freeze")
	}
	s.Heal()
	s.checkService(run, `studio/landscape 1 orders \d+ cents`, dir, key)
}
