package orders_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// clientStack extends a stack with a process that places orders over HTTP with a caller's forwarded API key. The
// ledger of the process is in memory.
type clientStack struct {
	*stack
	client    *client
	transport *catalog.TransportPools
	cred      catalog.Credential
}

// inClientStack runs a test in simulated time. The account of the caller's API key has the given balance.
func inClientStack(t *testing.T, balance int64, test func(*testing.T, *clientStack)) {
	t.Helper()
	inClientStackOf(t, sandbox.Config{}, balance, test)
}

// inClientStackOf is like inClientStack, but with the given configuration of the catalog.
func inClientStackOf(t *testing.T, cfg sandbox.Config, balance int64, test func(*testing.T, *clientStack)) {
	t.Helper()
	cfg.Speed = 1000
	inStackOf(t, cfg, balance, func(shared *stack) {
		listener, server := proctest.NewPipe(1<<20), &http.Server{Handler: shared.box} //nolint:gosec // the server needs no timeouts, because the test is its only client
		go func() { _ = server.Serve(listener) }()
		direct := catalog.NewTransport()
		direct.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
		transport := catalog.NewTransportPools(direct)
		s := &clientStack{stack: shared, transport: transport, cred: catalog.Forwarded(catalog.NewSecret(shared.key))}
		s.client = s.process(transport)
		s.Cleanup(func() {
			s.finish()
			transport.CloseIdleConnections()
			_ = server.Close()
		})
		test(shared.T, s)
		s.finish()
	})
}

// process returns a client that acts as another process. It sends its orders through the given transport.
func (s *clientStack) process(transport http.RoundTripper) *client {
	s.Helper()
	return newClient(s.T, catalog.Config{BaseURL: "http://127.0.0.1" + sandbox.BasePath, Transport: transport, AttemptTimeout: 2 * time.Second})
}

// finish waits until no order is in flight.
func (s *clientStack) finish() {
	s.Helper()
	if err := s.client.Close(context.Background()); err != nil {
		s.Error(err)
	}
}

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
	if got := countCharges(s, s.box, s.key)[key]; got != want {
		s.Errorf("%d charges under %s, want %d", got, key, want)
	}
}
