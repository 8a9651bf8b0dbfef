package orders_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(withDatabase{m}) }

// withDatabase runs the tests through [proctest.Main], because some of them need PostgreSQL.
type withDatabase struct{ *testing.M }

func (w withDatabase) Run() int { return proctest.Main(w.M) }

const (
	window       = 12 * time.Hour
	refundWindow = 10 * time.Minute
)

// stack is a sandbox with a ledger. It runs in simulated time.
type stack struct {
	*testing.T
	box    *sandbox.Sandbox
	ledger *ledger.Ledger
	key    string
	path   string
	events *ledger.EventConfig
}

// open opens the stack's ledger.
func (s *stack) open() {
	l, err := ledger.Open(s.Context(), ledger.Config{URL: "sqlite:" + s.path, Catalog: "http://127.0.0.1" + sandbox.BasePath, ResendWindow: window, RefundWindow: refundWindow, Events: s.events})
	if err != nil {
		s.Fatal(err)
	}
	s.ledger = l
}

// reopen closes the ledger, and opens it again with the given event configuration.
func (s *stack) reopen(events *ledger.EventConfig) {
	s.Helper()
	if err := s.ledger.Close(); err != nil {
		s.Fatal(err)
	}
	s.events = events
	s.open()
}

// inStack runs a test in a stack whose account has the given balance.
func inStack(t *testing.T, balance int64, test func(*stack)) {
	t.Helper()
	inStackOf(t, sandbox.Config{}, balance, test)
}

// inStackOf is like inStack, but with the given configuration of the catalog.
func inStackOf(t *testing.T, catalog sandbox.Config, balance int64, test func(*stack)) {
	t.Helper()
	catalog.Seed = 7
	path := filepath.Join(t.TempDir(), "ledger.db")
	synctest.Test(t, func(t *testing.T) {
		box, err := sandbox.Open(catalog)
		if err != nil {
			t.Fatal(err)
		}
		key, err := box.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: balance})
		if err != nil {
			t.Fatal(err)
		}
		s := &stack{T: t, box: box, key: key, path: path}
		s.open()
		test(s)
		s.auditAccount()
		if err := errors.Join(s.ledger.Close(), box.Close()); err != nil {
			t.Error(err)
		}
	})
}

// auditAccount checks that the entries of the account in the sandbox match its balance. It returns the number of idempotency
// keys that were charged.
func (s *stack) auditAccount() int {
	s.Helper()
	return len(countCharges(s, s.box, s.key))
}

// countCharges checks that the entries of an account in the sandbox add up to its balance. key is the account's API
// key. countCharges returns the number of charges, keyed by idempotency key.
func countCharges(t testing.TB, box *sandbox.Sandbox, key string) map[string]int {
	t.Helper()
	audit, err := box.Audit(context.Background(), key)
	if err == nil {
		err = audit.Check()
	}
	if err != nil {
		t.Error("the audit of the account failed:", err)
	}
	return audit.ChargesByIdempotencyKey
}

// replica is a process that places and settles orders.
type replica struct {
	*stack
	orders *orders.Orders
	client *catalog.Client

	mu     sync.Mutex
	answer func(*http.Request, *http.Response) (*http.Response, error) // replaces responses to POST /generations; may be nil
	before func(*http.Request) error                                   // called before each request is sent; if it returns an error, the request fails with this error and is not sent
	key    string
}

func (s *stack) replica() *replica { return s.replicaWith(orders.Config{}) }

// replicaWith returns a replica with the given configuration.
func (s *stack) replicaWith(cfg orders.Config) *replica {
	r := &replica{stack: s, key: s.key}
	client, err := catalog.New(catalog.Config{BaseURL: "http://127.0.0.1" + sandbox.BasePath, Transport: r, Seed: 1})
	if err != nil {
		s.Fatal(err)
	}
	cfg.Recorder, cfg.Catalog = &orders.Recorder{Ledger: s.ledger, Logger: slog.New(slog.DiscardHandler)}, client
	if cfg.Hub, err = watch.New(watch.Config{Upstream: client.Polls(), Seed: 1, Recorder: cfg.Recorder}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(cfg.Hub.Close)
	r.client, r.orders = client, orders.New(cfg)
	s.Cleanup(func() { _ = r.orders.Close(context.Background()) })
	return r
}

// recordVersions records the given versions of generations in the ledger, as if the replica had read them from the catalog with
// the credential.
func (r *replica) recordVersions(cred catalog.Credential, states ...catalog.Version) {
	r.Helper()
	for _, v := range states {
		if recorded := r.orders.Record(r.Context(), cred, []watch.Sighting{{Version: v}}); !recorded[v.ID] {
			r.Fatalf("%v is not recorded", v.State)
		}
	}
}

// watchStates starts a watch of a generation. The returned function stops the watch and returns the states that it has
// delivered.
func (r *replica) watchStates(id string) (told func() []catalog.State) {
	var states []catalog.State
	var watching sync.WaitGroup
	ctx, stop := context.WithCancel(r.Context())
	watching.Go(func() {
		_ = r.orders.Hub.Watch(ctx, &watch.Request{Credential: r.held("studio"), IDs: []string{id}, Ordered: map[string]bool{id: true}, Goal: watch.Settled}, func(e watch.Event) error {
			if e.Update != nil {
				states = append(states, e.Update.State)
			}
			return nil
		})
	})
	return func() []catalog.State {
		stop()
		watching.Wait()
		return states
	}
}

// RoundTrip passes the request to the sandbox without a network.
func (r *replica) RoundTrip(req *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	if req.Body == nil { // the handler of a real server never receives a nil body
		req = req.Clone(req.Context())
		req.Body = http.NoBody
	}
	r.mu.Lock()
	answer, before := r.answer, r.before
	r.mu.Unlock()
	if before != nil {
		if err := before(req); err != nil {
			return nil, err
		}
	}
	body, err := io.ReadAll(req.Body)
	if err != nil { // the request fails before the sandbox receives it
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.box.ServeHTTP(recorder, req)
	if answer != nil && isOrder(req) {
		return answer(req, recorder.Result())
	}
	return recorder.Result(), nil
}

// setAnswer sets r.answer, which replaces the responses to orders.
func (r *replica) setAnswer(f func(*http.Request, *http.Response) (*http.Response, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func lost(*http.Request, *http.Response) (*http.Response, error) {
	return nil, errors.New("the connection is gone")
}

// loseOrder sends an order for an owner and drops every response to it, so that the order's outcome is unknown.
func (r *replica) loseOrder(owner, key string) {
	r.Helper()
	r.setAnswer(lost)
	if _, err := r.place(owner, key, "a harbour"); outcomeOf(err) != orders.Unknown {
		r.Fatalf("the caller receives %v", err)
	}
}

func (r *replica) held(owner string) catalog.Credential {
	cred := catalog.Shared(func() catalog.Secret { return catalog.NewSecret(r.key) })
	cred.Owner = owner
	return cred
}

// place places an order for an owner, with a timeout of five seconds.
func (r *replica) place(owner, key, prompt string, more ...func(*orders.Request)) (orders.Receipt, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return r.orders.Place(ctx, r.held(owner), r.request(owner, key, prompt, more...))
}

func (r *replica) request(owner, key, prompt string, more ...func(*orders.Request)) orders.Request {
	request := orders.Request{
		Caller: owner + "-service", ModelID: "studio/haiku", Inputs: fmt.Appendf(nil, `{"prompt":%q}`, prompt),
		IdempotencyKey: key, UpstreamKey: owner + "." + key,
	}
	for _, change := range more {
		change(&request)
	}
	return request
}

// withBudget returns a function that sets the daily budget of the order's owner to *limit cents. Each check of the
// order reads the current value of *limit.
func withBudget(limit *int64) func(*orders.Request) {
	return func(r *orders.Request) {
		r.Terms = func() (orders.Terms, error) { return orders.Terms{Limits: ledger.Limits{DailyCents: limit}}, nil }
	}
}

// setBefore sets a function that is called before each request is sent.
func (r *replica) setBefore(f func(*http.Request) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = f
}

// isOrder reports whether a request places an order.
func isOrder(req *http.Request) bool {
	return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/generations")
}

// resendAbandoned resends abandoned orders for the duration d.
func (r *replica) resendAbandoned(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	r.orders.ResendAbandoned(ctx, r.held(""))
}

// posts returns the number of orders that the catalog has received.
func (s *stack) posts() int { return s.box.Requests()["POST /generations"] }

// close waits until the replica has no orders in flight.
func (r *replica) close() {
	r.Helper()
	if err := r.orders.Close(r.Context()); err != nil {
		r.Error(err)
	}
}

// outcomeOf returns the outcome that an order's error reports. It returns "" if err is not an [*orders.Error].
func outcomeOf(err error) orders.Outcome {
	if e, ok := err.(*orders.Error); ok { //nolint:errorlint // Place never wraps this type
		return e.Outcome
	}
	return ""
}

// list returns the ledger's orders that match a filter.
func (s *stack) list(f ledger.Filter) []ledger.Order {
	s.Helper()
	all, err := s.ledger.List(context.Background(), f, ledger.Position{}, 1000)
	if err != nil {
		s.Fatal(err)
	}
	return all
}
