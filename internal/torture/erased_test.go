//go:build unix

package torture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

// TestNoByteOfAnErasedResultIsLeft searches for the bytes of a picture and of a text after an
// erasure: in the store, in the ledger (the files of SQLite after a stop, a dump of PostgreSQL),
// and in later events.
func TestNoByteOfAnErasedResultIsLeft(t *testing.T) {
	for _, database := range []string{"SQLite", "PostgreSQL"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			e := openEstate(t, database)
			image, text := e.make(picture, `{"prompt":"an erased sea","size":"320x200"}`), e.make("studio/haiku", `{"prompt":"an erased sea"}`)
			traces := append(tracesOf(image[200:]), tracesOf(text)...) // a picture begins as others do
			traces = append(traces, []byte(digestOf(image)), []byte(digestOf(text)))
			if stored, known := e.search(e.store, traces), e.search(e.book(), traces); len(stored) < 2 || len(known) == 0 {
				t.Fatalf("before the erasure the search finds %q and %q", stored, known)
			}
			e.erase()
			eventually(t, "an empty store", func() bool { return e.files() == 0 })
			eventually(t, "two events", func() bool {
				e.mu.Lock()
				defer e.mu.Unlock()
				return len(e.events) >= 2
			})
			if err := e.facade.Signal(syscall.SIGTERM); err != nil { // SQLite removes its log at the end
				t.Fatal(err)
			}
			<-e.facade.Gone()
			if found := append(e.search(e.store, traces), e.search(e.book(), traces)...); len(found) > 0 {
				t.Errorf("after the erasure %q has traces of results", found)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, event := range e.events {
				if hasAny(event, traces) {
					t.Errorf("an event has traces of a result: %s", event)
				}
			}
		})
	}
}

// estate is Easel with a store and a ledger that can be searched, and a receiver of events.
type estate struct {
	*testing.T
	store  string              // its directory
	book   func() (dir string) // returns the directory of the ledger's files
	env    []string
	token  string
	facade *process
	client easelv1.GenerationServiceClient

	mu     sync.Mutex
	erased bool // before, the receiver takes no events
	events [][]byte
}

func openEstate(t *testing.T, database string) *estate {
	t.Helper()
	dir := t.TempDir()
	book := filepath.Join(dir, "book")
	e := &estate{T: t, store: filepath.Join(dir, "store"), book: func() string { return book }, token: auth.NewToken()}
	if err := os.Mkdir(book, 0o700); err != nil {
		t.Fatal(err)
	}
	url := "sqlite:" + filepath.Join(book, "ledger.db")
	if database == "PostgreSQL" {
		server := proctest.StartPostgres(t)
		url = server.Database(t)
		e.book = func() string {
			if err := os.WriteFile(filepath.Join(book, "dump.sql"), server.Dump(t, url), 0o600); err != nil {
				t.Fatal(err)
			}
			return book
		}
	}
	receiver := httptest.NewServer(http.HandlerFunc(e.receive))
	t.Cleanup(receiver.Close)
	catalog := startCatalog(t, filepath.Join(dir, "catalog.db"), "--speed", "1000")
	e.env = []string{
		"EASEL_UPSTREAM_KEY_FILE=" + writeFile(t, "key", key), "EASEL_LEDGER_URL=" + url, "EASEL_CONTENT_URL=file:" + e.store, "EASEL_API_KEY=" + e.token,
		"EASEL_PUBLIC_URL=https://easel.example", "EASEL_CALLERS_FILE=" + writeFile(t, "callers.yaml", fmt.Sprintf(
			`{"teams": {"studio": {"events": {"url": %q, "secret_file": %q}}}, "callers": [{"name": "service", "team": "studio", "operator": true, "tokens": [%q]}]}`,
			receiver.URL, writeFile(t, "secret", eventSecret), auth.Hash(e.token))),
	}
	e.facade = startFacade(t, catalog.http, e.env...)
	e.client = client(t, e.facade)
	return e
}

func (e *estate) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || !e.erased {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	e.events = append(e.events, body)
}

// make orders a result, waits until it is copied, and returns its bytes.
func (e *estate) make(model, inputs string) []byte {
	e.Helper()
	ctx := bearing(e.Context(), e.token)
	answer, err := e.client.CreateGeneration(ctx, &easelv1.CreateGenerationRequest{ModelId: model, IdempotencyKey: model, InputsJson: inputs})
	if err != nil {
		e.Fatal(err)
	}
	id := answer.GetGeneration().GetGenerationId()
	stream, err := e.client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{GenerationId: id})
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		e.Fatal(err)
	}
	var data []byte
	eventually(e.T, "a copy of "+id, func() bool {
		var from easelv1.ContentSource
		data, from = e.download(id)
		return from == easelv1.ContentSource_CONTENT_SOURCE_COPY
	})
	return data
}

func (e *estate) download(id string) (data []byte, from easelv1.ContentSource) {
	e.Helper()
	stream, err := e.client.DownloadGeneration(bearing(e.Context(), e.token), &easelv1.DownloadGenerationRequest{GenerationId: id})
	for err == nil {
		var m *easelv1.DownloadGenerationResponse
		m, err = stream.Recv()
		data = append(data, m.GetChunk().GetData()...)
		if info := m.GetChunk().GetInfo(); info != nil {
			from = info.GetSource()
		}
	}
	if !errors.Is(err, io.EOF) {
		e.Fatal(err)
	}
	return data, from
}

// erase erases all orders, as an operator does.
func (e *estate) erase() {
	e.Helper()
	command := exec.CommandContext(e.Context(), proctest.Easel(e.T), "erase", "--owner", "studio")
	command.Env = append(slices.Clone(e.env), "EASEL_ADMIN_ADDR="+e.facade.admin)
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "2 orders are erased") {
		e.Fatalf("%v\n%s", err, out)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.erased = true
}

// files counts the files of the store.
func (e *estate) files() (count int) {
	e.walk(e.store, func(string) { count++ })
	return count
}

func (e *estate) walk(dir string, each func(name string)) {
	e.Helper()
	if err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted since the directory was read
		}
		if err == nil && entry.Type().IsRegular() {
			each(name)
		}
		return err
	}); err != nil {
		e.Fatal(err)
	}
}

// search returns the files below a directory that contain any of the traces.
func (e *estate) search(dir string, traces [][]byte) (found []string) {
	e.Helper()
	e.walk(dir, func(name string) {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.Error(err)
		}
		if hasAny(data, traces) {
			found = append(found, name)
		}
	})
	return found
}

// traceSize is the number of consecutive bytes of a result that count as a trace of it.
const traceSize = 16

// tracesOf returns at most about two hundred pieces of a result.
func tracesOf(result []byte) (traces [][]byte) {
	step := max(traceSize, len(result)/200)
	for at := 0; at+traceSize <= len(result); at += step {
		traces = append(traces, result[at:at+traceSize])
	}
	return traces
}

func hasAny(data []byte, traces [][]byte) bool {
	return slices.ContainsFunc(traces, func(trace []byte) bool { return bytes.Contains(data, trace) })
}
