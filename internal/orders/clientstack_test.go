package orders_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// clientStack is a sandbox with one API key, and a process that places orders in it. At the end of the test, the accounts in
// the sandbox are checked.
type clientStack struct {
	*testing.T
	sandbox   *sandbox.Sandbox
	client    *client
	transport *catalog.TransportPools
	key       string
	cred      catalog.Credential
}

// inClientStack runs a test in simulated time, with an API key whose account has the given balance.
func inClientStack(t *testing.T, balance int64, test func(*testing.T, *clientStack)) {
	t.Helper()
	inClientStackOf(t, sandbox.Config{}, balance, test)
}

// inClientStackOf is like inClientStack, but with the given configuration of the catalog.
func inClientStackOf(t *testing.T, cfg sandbox.Config, balance int64, test func(*testing.T, *clientStack)) {
	t.Helper()
	cfg.Seed, cfg.Speed = 7, 1000
	synctest.Test(t, func(t *testing.T) {
		box, err := sandbox.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		key, err := box.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: balance})
		if err != nil {
			t.Fatal(err)
		}
		listener, server := proctest.NewPipe(1<<20), &http.Server{Handler: box} //nolint:gosec // the test is its only client
		go func() { _ = server.Serve(listener) }()
		direct := catalog.NewTransport()
		direct.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
		transport := catalog.NewTransportPools(direct)
		s := &clientStack{T: t, sandbox: box, transport: transport, key: key, cred: catalog.Forwarded(catalog.NewSecret(key))}
		s.client = s.process(transport)
		t.Cleanup(func() {
			s.finish()
			s.audit()
			transport.CloseIdleConnections()
			_ = server.Close()
			_ = box.Close()
		})
		test(t, s)
	})
}

// process creates a process that orders through the given transport.
func (s *clientStack) process(transport http.RoundTripper) *client {
	s.Helper()
	return newClient(s.T, catalog.Config{BaseURL: "http://127.0.0.1" + sandbox.BasePath, Transport: transport, AttemptTimeout: 2 * time.Second})
}

// audit checks that the accounts are exact, and returns the number of charges by idempotency key.
func (s *clientStack) audit() map[string]int {
	s.Helper()
	audit, err := s.sandbox.Audit(context.Background(), s.key)
	if err == nil {
		err = audit.Check()
	}
	if err != nil {
		s.Error("the accounts do not add up:", err)
	}
	return audit.ChargesByIdempotencyKey
}

// finish waits until no order is in flight.
func (s *clientStack) finish() {
	s.Helper()
	if err := s.client.Close(context.Background()); err != nil {
		s.Error(err)
	}
}

func (s *clientStack) posts() int { return s.sandbox.Requests()["POST /generations"] }

func (s *clientStack) order(key string) order {
	return order{
		ModelID: "studio/haiku", Inputs: []byte(`{"prompt":"a quiet harbour"}`), IdempotencyKey: key,
	}
}

func (s *clientStack) create(o order) (catalog.Generation, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	receipt, err := s.client.Create(ctx, s.cred, o)
	return receipt.Generation, err
}

func (s *clientStack) mustCreate(o order) catalog.Generation {
	s.Helper()
	g, err := s.create(o)
	if err != nil {
		s.Fatal(err)
	}
	return g
}

func (s *clientStack) wantKind(err error, want catalog.Kind) {
	s.Helper()
	if got := catalog.KindOf(err); got != want {
		s.Errorf("error %v, want kind %v", err, want)
	}
}

func (s *clientStack) wantCharges(key string, want int) {
	s.Helper()
	if got := s.audit()[key]; got != want {
		s.Errorf("%d charges under %s, want %d", got, key, want)
	}
}
