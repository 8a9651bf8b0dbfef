package orders

import (
	"context"
	"log/slog"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestAnOwnerHasSoManyOrdersOnTheirWayAndNoMore(t *testing.T) { // A6
	client, err := catalog.New(catalog.Config{BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	book, err := ledger.Open(t.Context(), ledger.Config{URL: ledger.InMemory, Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	hub, err := watch.New(watch.Config{Upstream: client.Once()})
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	o := New(Config{Recorder: NewRecorder(book, slog.New(slog.DiscardHandler)), Catalog: client, Hub: hub})
	place := func(owner string) (*submission, error) {
		p := &placing{orders: o, request: ledger.Request{Namespace: owner, Owner: owner, IdempotencyKey: "k", UpstreamKey: owner, ModelID: "m", Digest: "d"}, asked: Request{Inputs: []byte("{}")}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return p.write(ctx)
	}
	o.owners["greedy"] = mostUnderWay
	if _, err := place("greedy"); catalog.KindOf(err) != catalog.KindBusy {
		t.Errorf("one more: %v", err)
	}
	s, err := place("modest")
	if err != nil || s == nil {
		t.Fatalf("another owner's: %v", err)
	}
	s.leave(nil)
	if <-s.ended; o.underWay("modest") != 0 || o.underWay("greedy") != mostUnderWay {
		t.Errorf("on their way are %v", o.owners)
	}
}
