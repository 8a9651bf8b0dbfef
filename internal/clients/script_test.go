package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// script contains a server's responses to the calls of one program, and the expected behavior of the program. In the
// strings of Requests and Prints, * matches any text.
type script struct {
	Name     string
	Call     []string          // arguments of the program; FILE is replaced by a path in a temporary directory
	Files    map[string]string // kinds of the files to create before the call, keyed by file name
	Timeout  int               // timeout of the call in seconds; zero means the client library's default
	Answers  []answer          // answers to consecutive calls; the last answer repeats
	Requests []map[string]any  // for each call, the fields that its message must have; null means that the field must not be set
	Most     int               // maximum number of calls; if it is less than len(Requests), len(Requests) applies
	Prints   []string          // expected lines of the output, in which consecutive equal lines count as one; a line that starts with ? is optional
	Attempts int               // maximum number of attempts for the call; zero means the client library's default
	TLS      bool              // whether the server uses TLS, with its own certificate
	Dead     bool              // whether no server listens at the address that the program calls
	AtMost   string            // maximum duration from the first failed attempt to the end of the program, such as "20s"; empty means no maximum
	AtLeast  string            // minimum duration of the program, such as "2s"; empty means no minimum
	Logs     []string          // strings that the output, including the log, must contain
}

// answer is the scripted response to a call. It consists of messages and a final status: OK, or the error in the field
// Fails. If the field Then is not empty, the final status is not sent.
type answer struct {
	For      string // if set, only the first call with this idempotency key or generation ID gets the answer
	Messages []json.RawMessage
	Fails    *failure
	Then     string // "silence" (the call stays open), or "freeze" (in addition, the current connections no longer carry data)
	Lasts    string // period in which the answer is repeated, starting with the first call that gets it; empty means that the answer is not repeated
}

// failure is an error status with its details.
type failure struct {
	Code, Reason, RetryDelay, RequestID string
	Metadata, Fields                    map[string]string
}

const playSource = root + "/internal/clients/testdata/play"

// players maps each language to the commands that build and start the program that plays a script.
var players = map[string]struct{ build, start []string }{
	"go": {
		[]string{"go", "build", "-C", root, "-o", "DIR/play", "./internal/clients/testdata/play"},
		[]string{"DIR/play"},
	},
	"python": {
		[]string{root + "/.build/clients/python/bin/mypy", "--strict", playSource + "/play.py"},
		[]string{root + "/.build/clients/python/bin/python", playSource + "/play.py"},
	},
	"asyncio": {
		[]string{root + "/.build/clients/python/bin/mypy", "--strict", playSource + "/play_asyncio.py"},
		[]string{root + "/.build/clients/python/bin/python", playSource + "/play_asyncio.py"},
	},
	"typescript": {
		[]string{"sh", "-c", "cp " + playSource + "/play.mts . && " + compile + " play.mts"},
		[]string{"node", "DIR/play.mjs"},
	},
	"java": {
		[]string{"javac", "-Xlint:all,-processing", "-Werror", "-cp", root + "/.build/clients/java/lib/*", "-d", "DIR", playSource + "/Play.java"},
		[]string{"java", "-XX:TieredStopAtLevel=1", "-cp", "DIR:" + root + "/.build/clients/java/lib/*", "Play"},
	},
}

// TestEveryClientLibraryPassesSharedScripts checks that the client libraries of all languages behave in the same way.
func TestEveryClientLibraryPassesSharedScripts(t *testing.T) {
	t.Parallel() // runs in parallel, because the test mostly waits
	var scripts []script
	if err := json.Unmarshal([]byte(proctest.Read(t, "internal", "clients", "testdata", "scripts.json")), &scripts); err != nil {
		t.Fatal(err)
	}
	scripts = append(scripts, everyError(readTable(t)), everyEnd(readTable(t)))
	for language, player := range players {
		if !slices.Contains(strings.Split(*languages, ","), strings.Replace(language, "asyncio", "python", 1)) {
			continue
		}
		dir := t.TempDir()
		build(t, dir, player.build)
		for _, s := range scripts {
			t.Run(language+"/"+s.Name, func(t *testing.T) {
				t.Parallel()
				s.play(t, replacePlaceholders(t, dir, player.start))
			})
		}
	}
}

// everyError returns a script with one order for each error reason and each status code in table. The first call for an
// order fails with this reason or code. The order's idempotency key contains the name of the reason or code.
func everyError(table errorTable) script {
	s := script{Name: "every error has its class", Call: []string{"order"}}
	add := func(name string, row remedy, fails failure) {
		s.Call = append(s.Call, name)
		s.Answers = append(s.Answers, answer{For: name, Fails: &fails})
		if row.Again == "yes" {
			s.Prints = append(s.Prints, "again "+row.Class, "placed gen_1 "+name+" false")
		} else {
			s.Prints = append(s.Prints, "failed "+row.Class+" * retryable=false *")
		}
	}
	for _, name := range sortedKeys(table.Reasons) {
		add(name, table.Reasons[name], failure{Code: "UNKNOWN", Reason: name})
	}
	for _, name := range sortedKeys(table.Codes) {
		add("code-"+name, table.Codes[name], failure{Code: name})
	}
	s.Answers = append(s.Answers, answer{Messages: []json.RawMessage{json.RawMessage(`{"generation": {"generationId": "gen_1"}}`)}})
	s.Most = 2 * len(s.Call)
	return s
}

// everyEnd returns a script that watches one render for each status code in table. The first stream for this render
// fails with the code. The ID of the render is the name of the code.
func everyEnd(table errorTable) script {
	s := script{Name: "every code ends a watch or does not", Call: []string{"watch"}}
	for _, name := range sortedKeys(table.Codes) {
		s.Call = append(s.Call, name)
		s.Answers = append(s.Answers, answer{For: name, Fails: &failure{Code: name}})
		if class := table.Codes[name].Class; slices.Contains(table.WatchEnds, name) {
			s.Prints = append(s.Prints, "failed "+class+" *")
		} else {
			s.Prints = append(s.Prints, "again "+class, "render gen_1 SUCCEEDED e1", "ended")
		}
	}
	last := `{"update": {"generation": {"generationId": "gen_1", "etag": "e1", "state": "STATE_SUCCEEDED", "terminal": true}}}`
	s.Answers = append(s.Answers, answer{Messages: []json.RawMessage{json.RawMessage(last)}})
	s.Most = 2 * len(s.Call)
	return s
}

// play runs the program and checks its output and the requests that the server received.
func (s *script) play(t *testing.T, command []string) {
	served := newScripted(t, s)
	file := filepath.Join(t.TempDir(), "file")
	s.createFiles(t, file)
	for _, word := range s.Call {
		command = append(command, strings.Replace(word, "FILE", file, 1))
	}
	env := append(os.Environ(), "EASEL_ADDR="+served.addr(), "EASEL_API_KEY=of-no-use", "EASEL_API_KEY_FILE="+served.key.path)
	if served.certificate != "" {
		env = append(env, "EASEL_TLS_CA_FILE="+served.certificate)
	}
	if s.Attempts > 0 {
		env = append(env, fmt.Sprintf("PLAY_ATTEMPTS=%d", s.Attempts))
	}
	if s.Timeout > 0 {
		env = append(env, fmt.Sprintf("PLAY_TIMEOUT=%d", s.Timeout))
	}
	began := time.Now()
	run := proctest.Start(t, env, command...)
	if most, _ := time.ParseDuration(s.AtMost); most > 0 {
		must(t)(run.Await(0, `(?m)^(again) `, patience))
		began = time.Now()
		defer func() {
			if took := time.Since(began); took > most {
				t.Errorf("the program ended %v after its first failure", took)
			}
		}()
	}
	code, err := run.Wait(patience)
	said := run.Output.String()
	if err != nil || code != 0 {
		t.Fatalf("the program exited with %d, %v:\n%s", code, err, said)
	}
	if least, _ := time.ParseDuration(s.AtLeast); time.Since(began) < least {
		t.Errorf("the program exited too early, after %v", time.Since(began))
	}
	s.comparePrints(t, said)
	for _, part := range s.Logs {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not in\n%s", part, said)
		}
	}
	s.compareRequests(t, served.requests())
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 || strings.Contains(said, "Damaged") && exists(file) {
		t.Errorf("temporary or damaged files were not deleted: %q", left)
	}
	if info, err := os.Stat(file); s.Files["FILE"] != "" && (err != nil || info.Mode().IsRegular()) {
		t.Errorf("the %s was replaced or can't be read: %v, %v", s.Files["FILE"], info, err)
	}
}

// createFiles creates the script's files next to the given file. In the names of the new files, it replaces FILE with
// the base name of the given file.
func (s *script) createFiles(t *testing.T, file string) {
	t.Helper()
	for name, kind := range s.Files {
		path, old := filepath.Join(filepath.Dir(file), strings.Replace(name, "FILE", filepath.Base(file), 1)), time.Now().Add(-25*time.Hour)
		var err error
		switch kind {
		case "directory":
			err = os.Mkdir(path, 0o700)
		case "fifo":
			err = syscall.Mkfifo(path, 0o600)
		case "link to a fifo":
			fifo := filepath.Join(t.TempDir(), "fifo")
			err = errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(fifo, path))
		case "socket":
			var listener net.Listener
			if listener, err = (&net.ListenConfig{}).Listen(t.Context(), "unix", path); err == nil {
				t.Cleanup(func() { _ = listener.Close() })
			}
		case "stale":
			err = errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, old, old))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// logged matches log lines that a language's logging library may add to the output.
var logged = regexp.MustCompile(`(?m)^(?:\w{3} \d\d?, .*|(?:WARNING|INFO|SEVERE): .*|\d{4}[-/]\d\d[-/]\d\d.*|.*call (?:still failing|recovered).*)\n`)

func (s *script) comparePrints(t *testing.T, said string) {
	t.Helper()
	lines := slices.Compact(strings.Split(strings.TrimSpace(logged.ReplaceAllString(said, "")), "\n"))
	wants := slices.DeleteFunc(slices.Clone(s.Prints), func(want string) bool {
		optional, ok := strings.CutPrefix(want, "?")
		return ok && !slices.Contains(lines, optional)
	})
	if len(lines) != len(wants) {
		t.Fatalf("the program printed %d lines, want %d:\n%s", len(lines), len(wants), said)
	}
	for i, want := range wants {
		if !matchesPattern(strings.TrimPrefix(want, "?"), lines[i]) {
			t.Errorf("the program printed %q, want %q", lines[i], want)
		}
	}
}

func (s *script) compareRequests(t *testing.T, got []map[string]any) {
	t.Helper()
	if most := max(s.Most, len(s.Requests)); len(got) > most || len(got) < len(s.Requests) {
		t.Fatalf("the program sent %d calls, want %d: %v", len(got), most, got)
	}
	for i, want := range s.Requests {
		for name, value := range want {
			if text, ok := value.(string); ok && got[i][name] != nil && matchesPattern(text, fmt.Sprint(got[i][name])) {
				continue
			}
			if !bytes.Equal(asJSON(t, got[i][name]), asJSON(t, value)) {
				t.Errorf("call %d has %s %v, want %v", i+1, name, got[i][name], value)
			}
		}
	}
}

func asJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// matchesPattern reports whether a text has the form of a pattern, in which * can be any text.
func matchesPattern(pattern, text string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(text)
}
