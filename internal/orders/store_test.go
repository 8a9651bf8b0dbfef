package orders_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// store is a sandbox with one key, and what takes orders to it. The ledger is checked at the end of
// every test.
type store struct {
	*testing.T
	sandbox *sandbox.Sandbox
	client  *client
	url     string
	key     string
	cred    catalog.Credential
}

func openStore(t *testing.T, balance int64) *store {
	t.Helper()
	return openStoreOf(t, sandbox.Config{}, balance)
}

// openStoreOf is openStore over a catalog with ways of its own.
func openStoreOf(t *testing.T, cfg sandbox.Config, balance int64) *store {
	t.Helper()
	cfg.Seed, cfg.Speed = 7, 1000
	box, err := sandbox.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(box)
	transport := catalog.NewTransportPools(catalog.NewTransport())
	client := newClient(t, catalog.Config{BaseURL: server.URL + sandbox.BasePath, Transport: transport, AttemptTimeout: 2 * time.Second})
	key, err := box.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: balance})
	if err != nil {
		t.Fatal(err)
	}
	s := &store{t, box, client, server.URL + sandbox.BasePath, key, catalog.Forwarded(catalog.NewSecret(key))}
	t.Cleanup(func() {
		s.finish()
		s.audit()
		transport.CloseIdleConnections()
		_ = box.Close()
		server.Close()
	})
	return s
}

// audit checks that the books are exact, and gives the charges of each idempotency key.
func (s *store) audit() map[string]int {
	s.Helper()
	audit, err := s.sandbox.Audit(context.Background(), s.key)
	if err == nil {
		err = audit.Check()
	}
	if err != nil {
		s.Error("the books:", err)
	}
	return audit.ChargesByIdempotencyKey
}

// finish waits for the orders that are on their way.
func (s *store) finish() {
	s.Helper()
	if err := s.client.Close(context.Background()); err != nil {
		s.Error(err)
	}
}

func (s *store) posts() int { return s.sandbox.Requests()["POST /generations"] }

func (s *store) order(key string) order {
	return order{
		ModelID: "studio/haiku", Inputs: []byte(`{"prompt":"a quiet harbour"}`), IdempotencyKey: key,
	}
}

func (s *store) create(o order) (catalog.Generation, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	receipt, err := s.client.Create(ctx, s.cred, o)
	return receipt.Generation, err
}

func (s *store) mustCreate(o order) catalog.Generation {
	s.Helper()
	g, err := s.create(o)
	if err != nil {
		s.Fatal(err)
	}
	return g
}

func (s *store) wantKind(err error, want catalog.Kind) {
	s.Helper()
	if got := catalog.KindOf(err); got != want {
		s.Errorf("error %v, want kind %v", err, want)
	}
}

func (s *store) wantCharges(key string, want int) {
	s.Helper()
	if got := s.audit()[key]; got != want {
		s.Errorf("%d charges under %s, want %d", got, key, want)
	}
}
