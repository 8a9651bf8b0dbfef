package main

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server"
)

type demoCmd struct {
	Out    string `default:"easel-demo.png" placeholder:"FILE" help:"Where the picture goes. A file of that name is overwritten."`
	Prompt string `default:"a calm sea at dusk, hills on the far shore" placeholder:"TEXT" help:"What to paint."`
}

// Run starts the whole stack on free ports, and is its client.
func (c *demoCmd) Run(ctx context.Context, p *cli.Program) error {
	box := sandbox.Config{
		Seed:    7, // renders take the same time in every run
		Speed:   2,
		Dialect: sandbox.Dialect{ShowRunning: true}, // or there would be nothing to see between queued and succeeded
	}
	catalog, err := startCatalog(ctx, "127.0.0.1:0", box, false)
	if err != nil {
		return err
	}
	defer catalog.close(ctx)
	key, err := catalog.CreateKey(ctx, sandbox.KeyConfig{Name: "demo", BalanceCents: 5000})
	if err != nil {
		return err
	}
	facade := &serveCmd{
		UpstreamURL: catalog.baseURL(), ledgerFlags: ledgerFlags{LedgerURL: ledger.InMemory},
		listenFlags: listenFlags{GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"},
		tuningFlags: tuningFlags{ // for people: polls come often, and only what is wrong is logged; else the defaults of the parts
			PollMinInterval: 200 * time.Millisecond, PollMaxInterval: 500 * time.Millisecond, LogLevel: "error", LogFormat: "text", DrainTimeout: time.Second,
		},
	}
	listening := make(chan *server.Server, 1)
	err = together(ctx, catalog.wait,
		func(ctx context.Context) error {
			return runFacade(ctx, p.Stderr, facade, func(s *server.Server) { listening <- s })
		},
		func(ctx context.Context) error {
			select {
			case s := <-listening:
				return cli.Demo{Addr: s.GRPCAddr(), Key: key, Prompt: c.Prompt, Out: c.Out}.Run(ctx, p)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	if err == nil {
		err = ctx.Err() // an interrupted demo has not shown it all
	}
	return err
}
