package main

import (
	"context"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/shared"
)

func TestAPauseOfOneReplicaIsEveryReplicas(t *testing.T) {
	book, err := ledger.Open(t.Context(), ledger.Config{URL: ledger.InMemory, Catalog: "http://127.0.0.1/catalog"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	client, err := catalog.New(catalog.Config{BaseURL: "http://127.0.0.1/catalog"})
	if err != nil {
		t.Fatal(err)
	}
	apiKey := "the-first-key-that-is-held"
	held := catalog.Held(func() catalog.Secret { return catalog.NewSecret(apiKey) })
	mine, other := ledger.NewPolls(ledger.PollsConfig{Ledger: book}), ledger.NewPolls(ledger.PollsConfig{Ledger: book})
	defer begin(t.Context(), followGates(mine, client, held))()
	if _, err := other.Write(t.Context(), held.APIKeySum(), shared.Found{Pause: time.Now().Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil && !client.Gate(held.Tenant).State().Paused.After(time.Now().Add(50*time.Second)) {
		mine.Wake(held.APIKeySum())
		waitFor(ctx, nil, time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Error("the gate stays open")
	}
}
