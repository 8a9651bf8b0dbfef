package main

import (
	"context"
	"crypto/rand"
	"log/slog"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
)

// contentFlags say where copies of results are.
type contentFlags struct {
	ContentURL string `name:"content-url" group:"content" env:"EASEL_CONTENT_URL" placeholder:"URL" help:"Where results are copied to once, and read from when the catalog is away or has them no more: file:DIR, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME with the keys of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of the file of AWS_SHARED_CREDENTIALS_FILE, or of the role of the machine. It needs a held API key and a ledger that outlives a stop. Without it results are the catalog's alone."`
}

func (c *serveCmd) contentFaults(list *cli.FaultList) {
	if c.ContentURL == "" {
		return
	}
	if err := content.Check(c.ContentURL); err != nil {
		list.Add(err.Error())
	}
	list.Require(c.UpstreamKeyFile != "", "EASEL_CONTENT_URL needs EASEL_UPSTREAM_KEY_FILE: under the API keys of callers nothing is copied that nobody asks for")
	list.Require(ledger.IsDurable(c.LedgerURL), "EASEL_CONTENT_URL needs EASEL_LEDGER_URL=sqlite:FILE or postgres://…: which results are copied has to outlive this process")
}

// contents are the results, with their copies where there is a store.
func (c *serveCmd) contents(ctx context.Context, client *catalog.Client, book *ledger.Ledger, held *catalog.Credential, logger *slog.Logger) (*content.Results, error) {
	cfg := content.Config{Catalog: client, Ledger: book, Held: held, Logger: logger}
	if c.ContentURL == "" {
		return content.New(cfg), nil
	}
	var err error
	if cfg.Store, err = content.OpenStore(c.ContentURL); err == nil {
		cfg.Name, err = book.StoreName(ctx, rand.Text())
	}
	if err != nil {
		return nil, wrongSetting("EASEL_CONTENT_URL", err)
	}
	return content.New(cfg), nil
}
