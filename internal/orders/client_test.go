package orders_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

// client is a process that places orders. Its ledger is in memory.
type client struct {
	*orders.Orders
	ledger *ledger.Ledger
}

func newClient(t *testing.T, cfg catalog.Config, change ...func(*ledger.Config)) *client {
	t.Helper()
	upstream, err := catalog.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	at := ledger.Config{URL: ledger.InMemory, Catalog: cfg.BaseURL}
	for _, f := range change {
		f(&at)
	}
	led, err := ledger.Open(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = led.Close() })
	recorder := &orders.Recorder{Ledger: led, Logger: slog.New(slog.DiscardHandler)}
	hub, err := watch.New(watch.Config{Upstream: upstream.Polls(), Recorder: recorder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	return &client{orders.New(orders.Config{Recorder: recorder, Catalog: upstream, Hub: hub}), led}
}

// order contains the fields of an order that the tests vary.
type order struct {
	ModelID        string
	Inputs         json.RawMessage
	IdempotencyKey string
	MaxCostCents   *int64
}

// Create places an order.
func (c *client) Create(ctx context.Context, cred catalog.Credential, o order) (orders.Receipt, error) {
	return c.Place(ctx, cred, orders.Request{ModelID: o.ModelID, Inputs: o.Inputs, IdempotencyKey: o.IdempotencyKey, UpstreamKey: o.IdempotencyKey, MaxCostCents: o.MaxCostCents})
}

// roundTrip is a transport implemented by a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(r *http.Request, status int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: r,
	}
}
