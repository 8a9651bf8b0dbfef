package content_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// upstream is a catalog with generations and their results.
type upstream struct {
	mu      sync.Mutex
	files   map[string][]byte
	texts   map[string]string
	etags   bool
	kind    string // content type of the results; empty means image/png
	chunked bool   // whether results are sent without a Content-Length, and Range headers are ignored
	down    bool
	rejects bool           // whether the API key is rejected
	opened  map[string]int // number of times that content was opened, keyed by generation ID
}

// RoundTrip returns the response of the simulated catalog.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	id, isContent := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/generations/"), "/content")
	u.mu.Lock()
	down, rejects := u.down, u.rejects
	if isContent {
		u.opened[id]++
	}
	file, hasFile := u.files[id]
	text, hasText := u.texts[id]
	tagged, chunked, kind := u.etags, u.chunked, cmp.Or(u.kind, "image/png")
	u.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case rejects:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"code":"UNAUTHORIZED","message":"invalid API key"}`)
	case isContent && hasFile:
		if tagged {
			w.Header().Set("ETag", `"e-`+id+`"`)
		}
		w.Header().Set("Content-Type", kind)
		if chunked {
			_, _ = w.Write(file)
			break
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	case isContent && hasText, r.URL.Path == "/account":
		w.WriteHeader(http.StatusNoContent)
	case hasText:
		_, _ = fmt.Fprintf(w, `{"id":%q,"status":"succeeded","textOutput":%q}`, id, text)
	case hasFile:
		_, _ = fmt.Fprintf(w, `{"id":%q,"status":"succeeded","contentUrl":"/x"}`, id)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"code":"NOT_FOUND","message":"no such generation"}`)
	}
	answer := w.Result()
	if isContent && chunked && hasFile {
		answer.ContentLength, answer.TransferEncoding = -1, []string{"chunked"}
		answer.Header.Del("Content-Length")
	}
	return answer, nil
}

func (u *upstream) set(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

func (u *upstream) reads(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.opened[id]
}

// trouble is a store with simulated failures.
type trouble struct {
	content.Store

	mu     sync.Mutex
	refuse error                    // error with which all requests fail; nil if they succeed
	full   bool                     // whether writes fail
	stall  bool                     // whether requests hang
	locked string                   // objects whose names contain this text cannot be deleted; empty if all can
	cut    error                    // error that reads return after half of the object; nil if they return all of it
	lie    func(data []byte) []byte // changes the bytes that are read from the store; may be nil
	puts   int
	put    func() // called after each write
}

func (s *trouble) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *trouble) fault(ctx context.Context) error {
	s.mu.Lock()
	refuse, stall := s.refuse, s.stall
	s.mu.Unlock()
	if stall {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return refuse
}

func (s *trouble) Put(ctx context.Context, name string, body io.Reader, size int64) (int64, error) {
	if err := s.fault(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.puts++
	full := s.full
	s.mu.Unlock()
	if full {
		_, _ = io.CopyN(io.Discard, body, 1)
		return 0, errors.New("no space left on device")
	}
	written, err := s.Store.Put(ctx, name, body, size)
	if s.put != nil {
		s.put()
	}
	return written, err
}

func (s *trouble) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	if err := s.fault(ctx); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	lie := s.lie
	s.mu.Unlock()
	if s.cut != nil {
		body, size, err := s.Store.Get(ctx, name, offset)
		return &halved{body, ctx, (size - offset) / 2, s.cut}, size, err
	}
	if lie == nil {
		return s.Store.Get(ctx, name, offset)
	}
	body, _, err := s.Store.Get(ctx, name, 0)
	if err != nil {
		return nil, 0, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	data = lie(data)
	return io.NopCloser(bytes.NewReader(data[min(int(offset), len(data)):])), int64(len(data)), err
}

// halved is a body that returns err after half of the object. If err is [context.Canceled], the body first waits
// until ctx is done.
type halved struct {
	io.ReadCloser

	ctx  context.Context //nolint:containedctx // context that was passed to Get
	left int64
	err  error
}

// Read implements [io.Reader].
func (h *halved) Read(p []byte) (int, error) {
	if h.left == 0 {
		if errors.Is(h.err, context.Canceled) {
			<-h.ctx.Done()
		}
		return 0, h.err
	}
	n, err := h.ReadCloser.Read(p[:min(int64(len(p)), h.left)])
	h.left -= int64(n)
	return n, err
}

func (s *trouble) Delete(ctx context.Context, name string) error {
	s.mu.Lock()
	locked := s.locked
	s.mu.Unlock()
	if locked != "" && strings.Contains(name, locked) {
		return errors.New("object locked")
	}
	return s.Store.Delete(ctx, name)
}

func (s *trouble) Size(ctx context.Context, name string) (int64, error) {
	if err := s.fault(ctx); err != nil {
		return 0, err
	}
	return s.Store.Size(ctx, name)
}

func (s *trouble) List(ctx context.Context, prefix string) iter.Seq2[content.Object, error] {
	if err := s.fault(ctx); err != nil {
		return func(yield func(content.Object, error) bool) { yield(content.Object{}, err) }
	}
	return s.Store.List(ctx, prefix)
}

// studio is a ledger with generations and a store for copies of their results.
type studio struct {
	*testing.T
	url       string // URL of the ledger
	ledger    *ledger.Ledger
	upstream  *upstream
	client    *catalog.Client
	shared    catalog.Credential
	dir       string
	store     *trouble
	results   *content.Results
	team      ledger.Team
	connector driver.Connector // connector to the database; nil means the default connector for url
}

func newStudio(t *testing.T, url string) *studio {
	s := &studio{T: t, upstream: &upstream{files: map[string][]byte{}, texts: map[string]string{}, opened: map[string]int{}, etags: true}, dir: filepath.Join(t.TempDir(), "results")}
	s.url = url
	s.open(true)
	t.Cleanup(func() {
		if err := s.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if s.client, err = catalog.New(catalog.Config{BaseURL: "https://catalog.example", Transport: s.upstream, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	s.shared = catalog.Shared(func() catalog.Secret { return catalog.NewSecret("key") })
	open, err := content.OpenStore("file:"+s.dir, false)
	if err != nil {
		t.Fatal(err)
	}
	s.store = &trouble{Store: open}
	s.results = s.replica()
	return s
}

// open opens the ledger as a new process does. If withStore is true, the process has a store for copies.
func (s *studio) open(withStore bool) {
	s.Helper()
	var err error
	s.ledger, err = ledger.Open(s.Context(), ledger.Config{URL: s.url, Connector: s.connector, Catalog: "https://catalog.example", ResendWindow: time.Hour, Contents: withStore, Events: &ledger.EventConfig{
		Teams:      func() map[string]ledger.Team { return map[string]ledger.Team{"studio": s.team} },
		Generation: func(ledger.Order, *string) string { return "{}" }, Budget: func(ledger.Budget) string { return "{}" },
	}})
	if err != nil {
		s.Fatal(err)
	}
}

// restart stops the process and starts another one. If withStore is true, the new process has a store for copies.
func (s *studio) restart(withStore bool) {
	s.Helper()
	if err := s.ledger.Close(); err != nil {
		s.Fatal(err)
	}
	s.open(withStore)
	s.results = s.replica()
	if !withStore {
		s.results = content.New(content.Config{Catalog: s.client, Ledger: s.ledger})
	}
}

// replica returns the [content.Results] of another process with the same ledger and store.
func (s *studio) replica() *content.Results {
	suggested := "here"
	if s.ledger.IsCopy() {
		suggested = "there" // a copy of a ledger must have a different store name than the original
	}
	name, err := s.ledger.StoreName(s.Context(), suggested)
	if err != nil {
		s.Fatal(err)
	}
	return content.New(content.Config{Catalog: s.client, Store: s.store, Ledger: s.ledger, SharedKey: &s.shared, Name: name, Logger: slog.New(slog.DiscardHandler)})
}

// takeJob acquires the lease of a job and does not run the job, as if the process had crashed in the meantime.
func (s *studio) takeJob(kind string) ledger.Job {
	s.Helper()
	taken, err := s.ledger.TakeJobs(s.Context(), kind, "studio", 1)
	if err != nil || len(taken) != 1 {
		s.Fatal(len(taken), err)
	}
	return taken[0]
}

// runCopyJob runs a copy job directly, without the loop that normally runs jobs.
func (s *studio) runCopyJob(job ledger.Job) error {
	_, err := s.results.Kinds()[0].Do(s.Context(), job)
	return err
}

func (s *studio) erase(all ...ledger.Order) {
	s.Helper()
	for _, o := range all {
		found, err := s.ledger.Find(s.Context(), o.ID, 1)
		if err == nil {
			_, err = s.ledger.Erase(s.Context(), found...)
		}
		if err != nil {
			s.Fatal(err)
		}
	}
}

// awaitDeletions waits until all copies that are marked for deletion are deleted, or until the given time has passed.
// It returns the number of copies that are still marked.
func (s *studio) awaitDeletions(within time.Duration) int64 {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), within)
	defer cancel()
	left, err := s.results.Forget(ctx)
	if err != nil {
		s.Error(err)
	}
	return left
}

// inStudio runs a test with SQLite, in simulated time.
func inStudio(t *testing.T, test func(*studio)) {
	synctest.Test(t, func(t *testing.T) { test(newStudio(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))) })
}

// onEach runs a test once for each kind of database, in real time instead of simulated time.
func onEach(t *testing.T, test func(*studio)) {
	t.Helper()
	proctest.OnEach(t, func(t *testing.T, url string) { test(newStudio(t, url)) })
}

// runJobs runs the jobs of a process until stop is called.
func (s *studio) runJobs(results *content.Results) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		jobs.New(results.Ledger, results.Logger, results.Kinds()...).Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

// orderGeneration writes an order to the ledger and records that the order created the given generation.
func (s *studio) orderGeneration(id string) ledger.Order {
	s.Helper()
	o, _, err := s.ledger.Write(s.Context(), ledger.Request{Namespace: "studio", Owner: "studio", Caller: "c", IdempotencyKey: id, UpstreamKey: id, APIKey: "a", ModelID: "m", PriceCents: 1})
	if err == nil {
		_, err = s.ledger.Conclude(s.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: id})
	}
	if err != nil {
		s.Fatal(err)
	}
	return o
}

// observe records an observation of a generation.
func (s *studio) observe(id string, seen lifecycle.Observation) {
	s.Helper()
	s.record(id, seen, `{"ID":"`+id+`","File":{}}`)
}

func (s *studio) record(id string, seen lifecycle.Observation, record string) {
	s.Helper()
	if _, err := s.ledger.Observe(s.Context(), id, ledger.Observation{Observation: seen, Record: record}); err != nil {
		s.Fatal(err)
	}
}

// finishOrder places an order and lets its generation succeed with the given file.
func (s *studio) finishOrder(id string, file []byte) ledger.Order {
	s.Helper()
	s.upstream.set(func() { s.upstream.files[id] = file })
	o := s.orderGeneration(id)
	s.observe(id, lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: new(int64(1)), Whole: true})
	return o
}

// row returns the ledger's row for a copy.
func (s *studio) row(id string) ledger.Content {
	s.Helper()
	row, _, err := s.ledger.Content(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return row
}

// waitForCopy waits until a result is copied and returns the copy's row.
func (s *studio) waitForCopy(id string) (row ledger.Content) {
	s.Helper()
	proctest.Eventually(s, time.Minute, id+" is copied", func() bool {
		row = s.row(id)
		return row.State == ledger.ContentCopied
	})
	return row
}

// read reads a result from an offset to its end.
func (s *studio) read(results *content.Results, id string, offset int64) (data []byte, from content.Source, err error) {
	opened, err := results.Open(s.Context(), s.shared, id, offset, "")
	if err != nil {
		return nil, 0, err
	}
	defer opened.Body.Close()
	data, err = io.ReadAll(opened.Body)
	return data, opened.Source, err
}

// wantBytes reads a result and checks its bytes and its source.
func (s *studio) wantBytes(id string, want []byte, from content.Source) {
	s.Helper()
	got, source, err := s.read(s.results, id, 0)
	if err != nil || !bytes.Equal(got, want) || source != from {
		s.Errorf("read %d bytes from %v, want %d bytes from %v: %v", len(got), source, len(want), from, err)
	}
}

// picture returns a file of the given size, in which all blocks of 64 KiB are different.
func picture(size int) []byte {
	data := make([]byte, size)
	for n := range data {
		data[n] = byte(n ^ n>>8 ^ n>>16*7)
	}
	return data
}

// objects returns the names of the files in the store.
func (s *studio) objects() (names []string) {
	_ = filepath.WalkDir(s.dir, func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return nil
	})
	return names
}
