package clients

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

var languages = flag.String("languages", "go", "the examples to run, of go, python, typescript, java and rust; all but go must be built")

// patience is the maximum duration of each step on a busy machine.
const patience = 2 * time.Minute

// commands maps each language to the command that runs the example in this language. Paths are relative to the root of
// the repository.
var commands = map[string][]string{
	"python":     {".build/clients/python/bin/python", "clients/python/example/render.py"},
	"asyncio":    {".build/clients/python/bin/python", "clients/python/example/render_asyncio.py"},
	"typescript": {"node", ".build/clients/typescript/dist/render.js"},
	"java":       {"java", "-cp", ".build/clients/java/classes:.build/clients/java/lib/*", "Render"},
	"rust":       {".build/clients/rust/debug/easel-example"},
}

// client is a run of an example program, with its own API key and its own proxy to the server.
type client struct {
	language string
	command  []string
	key      string
	file     string // path of the downloaded picture
	wire     *proctest.Wire
	run      *proctest.Process
}

func TestClientDocsContainTestedExampleCommands(t *testing.T) {
	commands := maps.Clone(commands)
	commands["go"] = []string{"go", "run", "./clients/go/example"}
	for language, command := range commands {
		page := pageOf(strings.Replace(language, "asyncio", "python", 1))
		if language == "rust" {
			page = filepath.Join("docs", "callers.md")
		}
		line := strings.Join(command, " ") + ` studio/landscape "a calm sea at dusk" sea.png`
		if !strings.Contains(strings.ReplaceAll(proctest.Read(t, page), "'", ""), line) {
			t.Errorf("%s does not run the %s example with the command %s", page, language, line)
		}
	}
}

// TestClientLibrariesDefineDocumentedFunctions checks that each client library has the functions that the table of steps in
// docs/callers.md names.
func TestClientLibrariesDefineDocumentedFunctions(t *testing.T) {
	sources := map[string]string{
		"go": "*.go", "python": "src/easel_grpc/*.py", "typescript": "src/*.ts", "java": "src/main/java/io/github/easelgrpc/easel/*.java",
	}
	text := map[string]string{}
	for language, pattern := range sources {
		files, err := filepath.Glob(proctest.FromRoot(t, "clients", language, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", language, len(files), err)
		}
		for _, file := range files {
			text[language] += proctest.Read(t, file)
		}
	}
	page := proctest.Read(t, "docs", "callers.md")
	rows := regexp.MustCompile("(?m)^\\| \\d\\. [^|]+ \\| `(\\w+)` \\| `(\\w+)` \\| `(\\w+)` \\| `(\\w+)` \\|$").FindAllStringSubmatch(page, -1)
	if len(rows) != 4 {
		t.Fatalf("docs/callers.md has the steps %q, want 4", rows)
	}
	for _, row := range rows {
		for n, language := range []string{"go", "python", "typescript", "java"} {
			if name := row[n+1]; !strings.Contains(text[language], " "+name+"(") {
				t.Errorf("the client library for %s has no %s", language, name)
			}
		}
	}
}

// pageOf returns the path of a client library's page in the repository.
func pageOf(language string) string {
	return filepath.Join("clients", language, "README.md")
}

func must(t *testing.T) func(string, error) string {
	return func(found string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(proctest.Main(m))
}

func newClients(t *testing.T, s stack) (clients []*client) {
	t.Helper()
	for _, language := range strings.Split(strings.Replace(*languages, "python", "python,asyncio", 1), ",") {
		c := &client{
			language: language, key: "sandbox_live_of_" + language, command: commands[language],
			file: filepath.Join(t.TempDir(), "sea.png"), wire: proctest.NewWire(t, s.Server.GRPC),
		}
		if language == "go" {
			c.command = []string{proctest.Build(t, "./clients/go/example")}
		}
		if c.command == nil {
			t.Fatalf("no example for the language %q", language)
		}
		s.addKey(c.key)
		clients = append(clients, c)
	}
	return clients
}

// start starts the example. It can be called again after the program has ended.
func (c *client) start(t *testing.T, arguments ...string) {
	t.Helper()
	env := append(os.Environ(), "EASEL_ADDR="+c.wire.Address, "EASEL_API_KEY="+c.key)
	c.run = proctest.Start(t, env, append(append([]string{}, c.command...), arguments...)...)
}

// awaitState waits until the example has received the first state.
func (c *client) awaitState() error {
	_, err := c.run.Await(0, `(?m)^watching: \S+`, patience)
	return err
}

// callForAll calls fn for all clients concurrently, and waits until all calls have returned. The test fails if any call
// returns an error.
func callForAll(t *testing.T, clients []*client, fn func(*client) error) {
	t.Helper()
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() {
			if err := fn(c); err != nil {
				t.Errorf("%s: %v", c.language, err)
			}
		})
	}
	if group.Wait(); t.Failed() {
		t.FailNow()
	}
}

func TestEveryClientGetsRightBytesAndOneChargeDespiteFaults(t *testing.T) {
	t.Parallel() // runs in parallel, because the test mostly waits
	s := startStack(t, nil)
	clients := newClients(t, s)
	s.holdRenders()
	ids := map[*client]string{}
	for _, c := range clients {
		c.start(t, "studio/landscape", "a calm sea at dusk", c.file)
	}
	callForAll(t, clients, (*client).awaitState)
	for _, c := range clients {
		ids[c] = must(t)(c.run.Await(0, `(?m)^ordered: (\S+)`, patience))
		c.run.Kill() // the next run does not know the order's generation ID, and can find the order only by its idempotency key
		c.start(t, "studio/landscape", "a calm sea at dusk", c.file)
	}
	callForAll(t, clients, (*client).awaitState)
	for _, c := range clients {
		if id := must(t)(c.run.Await(0, `(?m)^ordered: (\S+)`, patience)); id != ids[c] {
			t.Errorf("%s: the same key returned %s and %s", c.language, ids[c], id)
		}
	}

	for _, end := range []func(){func() { s.Server.Stop() }, func() { s.Server.Kill() }} {
		end()
		s.Serve()
		s.awaitWatches(len(clients)) // waits until all clients have reconnected
	}

	for _, c := range clients {
		if c.wire.Freeze() == 0 {
			t.Fatalf("%s: no open connection to freeze", c.language)
		}
		c.wire.CutAt.Store(300 << 10)
	}
	s.Heal()
	callForAll(t, clients, func(c *client) error {
		if code, err := c.run.Wait(patience); err != nil || code != 0 {
			text := c.run.Output.String()
			return fmt.Errorf("the program exited with %d, %v:\n%s", code, err, text)
		}
		return nil
	})
	for _, c := range clients {
		c.checkResult(t, s, ids[c])
	}
}

// checkResult checks a client's downloaded file, the number of its downloads and its charges.
func (c *client) checkResult(t *testing.T, s stack, id string) {
	t.Helper()
	text := c.run.Output.String()
	t.Logf("%s\n%s", c.language, text)
	if n := c.wire.Cuts.Load(); n != 1 {
		t.Errorf("%s: the download was cut %d times", c.language, n)
	}
	order := s.onlyOrder(c.key)
	if got, want := proctest.Read(t, c.file), s.readContent(c.key, order); got != want || len(want) < 300<<10 {
		t.Errorf("%s: the file of %d bytes differs from the catalog's %d bytes", c.language, len(got), len(want))
	}
	if left, _ := filepath.Glob(c.file + ".*"); len(left) > 0 {
		t.Errorf("%s: temporary files were not deleted: %q", c.language, left)
	}
	if order.ID != id {
		t.Errorf("%s: the catalog has the order %+v", c.language, order)
	}
}

func TestEveryClientExitsWhenAPIKeyIsRevokedDuringWatch(t *testing.T) {
	t.Parallel() // runs in parallel, because the test mostly waits
	s := startStack(t, nil)
	clients := newClients(t, s)
	s.holdRenders()
	for _, c := range clients {
		c.start(t, "studio/landscape", "a calm sea at dusk", c.file)
	}
	callForAll(t, clients, (*client).awaitState)
	for _, c := range clients {
		s.Control(http.MethodDelete, "keys/"+c.key, "")
	}
	callForAll(t, clients, func(c *client) error {
		code, err := c.run.Wait(patience)
		text := c.run.Output.String()
		if err != nil || code != 1 || !strings.Contains(text, "UPSTREAM_CREDENTIAL_REJECTED") {
			return fmt.Errorf("the program exited with %d, %v:\n%s", code, err, text)
		}
		return nil
	})
	// Each client exits after one rejected call instead of retrying it.
	if n := s.Measured("rpc_server_call_duration_seconds_count", `"UNAUTHENTICATED"`); int(n) != len(clients) {
		t.Errorf("%v calls of %d clients were rejected", n, len(clients))
	}
}
