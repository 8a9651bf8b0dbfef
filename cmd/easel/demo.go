package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/terminal"
)

type demoCmd struct {
	Out    string `default:"easel-demo.png" placeholder:"FILE" help:"File for the picture. An existing file is overwritten."`
	Prompt string `default:"a calm sea at dusk, hills on the far shore" placeholder:"TEXT" help:"Description of the picture."`
}

// Run starts a sandbox catalog and the facade on free ports, and runs example client commands against the facade.
func (c *demoCmd) Run(ctx context.Context, p *cli.Program) error {
	box := sandbox.Config{
		Seed:    7, // fixed, so that each render takes the same time in every run
		Speed:   2,
		Dialect: sandbox.Dialect{ShowRunning: true}, // without ShowRunning, the sandbox shows no state between queued and succeeded
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
		tuningFlags: tuningFlags{ // a person is watching, so the demo polls frequently and logs only errors; other settings keep their defaults
			PollMinInterval: 200 * time.Millisecond, PollMaxInterval: 500 * time.Millisecond, LogLevel: "error", LogFormat: "text", DrainTimeout: time.Second,
		},
	}
	listening := make(chan *server.Server, 1)
	err = runTogether(ctx, catalog.wait,
		func(ctx context.Context) error {
			return runFacade(ctx, p.Stderr, facade, func(s *server.Server) { listening <- s })
		},
		func(ctx context.Context) error {
			select {
			case s := <-listening:
				return c.runCommands(ctx, p, s.GRPCAddr(), key)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	if err == nil {
		err = ctx.Err() // not nil if the demo was interrupted, which must not count as a success
	}
	return err
}

// runCommands runs the commands that a user would type, from the list of models to the usage report, against the server
// at addr.
func (c *demoCmd) runCommands(ctx context.Context, p *cli.Program, addr, key string) error {
	started, out := time.Now(), p.Console()
	out.Print("Easel demo: a catalog with test money, the facade in front of it, and one client.")
	out.Print("Everything runs on this machine; the client calls " + addr + ".")
	picture := []string{"studio/landscape", "prompt=" + c.Prompt, "size=1600x1000", "steps=30"}
	order := append([]string{"generate", "--idempotency-key", "demo-1", "--max-cost", "0.50"}, picture...)
	for _, step := range []struct {
		about string
		words []string
	}{
		{"Which models are there?", []string{"models"}},
		{"What would a picture cost?", append([]string{"quote"}, picture...)},
		{"Order it, watch it, and fetch it:", append(order, "--out", c.Out, "--force")},
		{"The same idempotency key again: one render, one charge.", order},
		{"A text result is part of the last state:", []string{"generate", "studio/haiku", "prompt=" + c.Prompt, "--watch"}},
		{"What did it cost?", []string{"usage"}},
	} {
		out.PrintText("\n" + out.OutStyle.Paint(terminal.Bold, step.about) + "\n$ " + terminal.OneLine(cli.ShellLine(step.words)))
		if exit := runTyped(ctx, p, step.words, addr, key); exit != cli.ExitOK {
			return &cli.Problem{Exit: exit, Text: "the demo failed"}
		}
	}
	out.PrintText(fmt.Sprintf("\nThat took %v. Next: %s dev keeps it running and prints how to call it.", time.Since(started).Round(100*time.Millisecond), p.Self()))
	return out.Err()
}

// runTyped runs a client command against the facade, as if a user had typed it, and returns the command's exit code.
// The command's messages are printed to standard output, like its results.
func runTyped(ctx context.Context, p *cli.Program, words []string, addr, key string) int {
	return cli.Run(ctx, words, &cli.Program{
		Stdin: strings.NewReader(""), Stdout: p.Stdout, Stderr: p.Stdout, Grammar: p.Grammar, Build: p.Build,
		Lookup: func(name string) (string, bool) {
			if ours, ok := map[string]string{"EASEL_ADDR": addr, "EASEL_API_KEY": key}[name]; ok {
				return ours, true
			}
			value, ok := p.Lookup(name)
			return value, ok && !strings.HasPrefix(name, "EASEL_")
		},
	})
}
