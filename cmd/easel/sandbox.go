package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/terminal"
)

// sandboxFlags contains the flags that configure a sandbox.
type sandboxFlags struct {
	DB          string     `name:"db" env:"EASEL_SANDBOX_DB" placeholder:"FILE" help:"File for all data. Default: the data is lost when the command ends."`
	Seed        uint64     `env:"EASEL_SANDBOX_SEED" placeholder:"N" help:"Seed for IDs, times and failures, which are then the same in every run (0 for a random seed)."`
	Speed       float64    `env:"EASEL_SANDBOX_SPEED" default:"1" placeholder:"FACTOR" help:"Speed of renders, as a multiple of the real speed."`
	FailureRate float64    `env:"EASEL_SANDBOX_FAILURE_RATE" placeholder:"SHARE" help:"Share of renders that fail, from 0 to 1."`
	RateLimit   float64    `env:"EASEL_SANDBOX_RATE_LIMIT" placeholder:"N" help:"Maximum number of requests per second for each account (0 for no limit)."`
	DailyCap    cli.Amount `env:"EASEL_SANDBOX_DAILY_CAP" placeholder:"AMOUNT" help:"Maximum amount that an API key may spend per day: 5.00 (euros) or 500c (cents). Default: no limit."`
	Balance     cli.Amount `env:"EASEL_SANDBOX_BALANCE" default:"50.00" placeholder:"AMOUNT" help:"Initial balance of the account whose API key is printed at startup."`
	Dialect     string     `env:"EASEL_SANDBOX_DIALECT" enum:",${dialects}" default:"" placeholder:"NAME" help:"Catalog behavior that the specification leaves open: ${dialects}. Default: default; 'easel dev' also shows the state running."`
	Key         string     `env:"EASEL_SANDBOX_KEY" placeholder:"KEY" help:"API key to use instead of a new one. It is valid only in the sandbox."`
}

func dialectNames() []string {
	var names []string
	for _, d := range sandbox.Dialects() {
		names = append(names, d.Name)
	}
	return names
}

// Faults returns a message for each invalid setting.
func (f *sandboxFlags) Faults() []string {
	var faults cli.FaultList
	faults.Require(f.Speed > 0, "EASEL_SANDBOX_SPEED (--speed) must be above 0")
	faults.Require(f.FailureRate >= 0 && f.FailureRate <= 1, "EASEL_SANDBOX_FAILURE_RATE (--failure-rate) must be from 0 to 1")
	faults.Require(f.RateLimit >= 0, "EASEL_SANDBOX_RATE_LIMIT (--rate-limit) must not be negative")
	return faults
}

func (f *sandboxFlags) config(logs io.Writer) sandbox.Config {
	dialects := sandbox.Dialects()
	named := slices.IndexFunc(dialects, func(d sandbox.Dialect) bool { return d.Name == cmp.Or(f.Dialect, "default") })
	cfg := sandbox.Config{
		Path: f.DB, Seed: f.Seed, Speed: f.Speed, FailureRate: f.FailureRate,
		RateLimit: f.RateLimit, Dialect: dialects[named],
		Logger: slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if f.DailyCap.Cents != nil {
		cfg.DailyCapCents = *f.DailyCap.Cents
	}
	return cfg
}

// shownKey is the API key that is printed in example commands, or a placeholder for it.
type shownKey struct {
	text  string
	worth string // text that is printed after the key, such as its balance
}

// makeKey creates the API key that is printed at startup. If the API key in --key already exists, makeKey returns that API key
// and keeps its balance.
func (f *sandboxFlags) makeKey(ctx context.Context, box *sandbox.Sandbox) (shownKey, error) {
	key, err := box.CreateKey(ctx, sandbox.KeyConfig{Name: "easel", Key: f.Key, BalanceCents: *f.Balance.Cents})
	if errors.Is(err, sandbox.ErrKeyExists) {
		return shownKey{f.Key, "of an earlier run, with its remaining balance"}, nil
	}
	return shownKey{key, cli.Money(*f.Balance.Cents, "")}, err
}

// retentionText returns a message that states whether data and API keys are kept after the command ends. An earlier API key
// still works but can't be shown again, because the database contains only its hash.
func (f *sandboxFlags) retentionText() string {
	if f.DB == "" {
		return "All data is lost then; --db FILE keeps it."
	}
	return "Everything is kept in " + f.DB + ", and earlier keys still work. A new key is never shown again."
}

type sandboxCmd struct {
	Addr  string `env:"EASEL_SANDBOX_ADDR" default:"127.0.0.1:8099" placeholder:"HOST:PORT" help:"Address to listen on. Port 0 selects a free port."`
	Admin bool   `env:"EASEL_SANDBOX_ADMIN" help:"Also serve administration requests (keys, top-ups, faults, accounts) at paths below ${adminpath}. They need no key, so the address must be loopback."`
	sandboxFlags
}

func (c *sandboxCmd) Faults() []string {
	faults := cli.FaultList(c.sandboxFlags.Faults())
	_, _, err := net.SplitHostPort(c.Addr)
	faults.AddError("EASEL_SANDBOX_ADDR (--addr)", err)
	faults.Require(!c.Admin || crossorigin.IsLoopback(c.Addr), "EASEL_SANDBOX_ADMIN (--admin) needs a loopback EASEL_SANDBOX_ADDR, because it needs no key")
	return faults
}

// Run serves the catalog until ctx is done.
func (c *sandboxCmd) Run(ctx context.Context, p *cli.Program) error {
	catalog, err := startCatalog(ctx, c.Addr, c.config(p.Stderr), c.Admin)
	if err != nil {
		return err
	}
	defer catalog.close(ctx)
	key, err := c.makeKey(ctx, catalog.Sandbox)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(p.Stdout, terminal.Sanitize(c.howTo(p.Self(), catalog, key)+"\nCtrl-C stops it. "+c.retentionText()+"\n")); err != nil {
		return err
	}
	return catalog.wait(ctx)
}

// howTo returns a text that explains how to use the catalog: its address, its API key, and example commands.
func (c *sandboxCmd) howTo(self string, catalog *catalogServer, key shownKey) string {
	text := fmt.Sprintf(`The catalog is at
  %[1]s

Its key (%[3]s):
  %[2]s

Try it:
  curl -s %[1]s/me -H "Authorization: Bearer %[2]s"

Put the facade in front of it:
  EASEL_UPSTREAM_URL=%[1]s %[4]s serve
`, catalog.baseURL(), key.text, key.worth, self)
	if c.Admin {
		text += fmt.Sprintf("\nControl it (keys, top-ups, faults, accounts); this lists the requests:\n  curl -s http://%s%s\n", catalog.addr, sandbox.AdminPath) +
			fmt.Sprintf("\nReject the next two requests that place an order:\n  curl -s http://%s%sfaults -d '%s'\n", catalog.addr, sandbox.AdminPath, sandbox.ExampleFault)
	}
	return text
}

// catalogServer is a sandbox with an HTTP server.
type catalogServer struct {
	*sandbox.Sandbox
	addr   string
	server *http.Server
	failed chan error // receives the error that stops the server
}

// startCatalog opens a sandbox, and serves it at addr. If hasAdmin is true, every client that reaches the address can also
// administer the sandbox.
func startCatalog(ctx context.Context, addr string, cfg sandbox.Config, hasAdmin bool) (*catalogServer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, wrongSetting("EASEL_SANDBOX_ADDR", err)
	}
	box, err := sandbox.Open(cfg)
	if err != nil {
		return nil, wrongSetting("EASEL_SANDBOX_DB", errors.Join(err, listener.Close()))
	}
	c := &catalogServer{Sandbox: box, addr: listener.Addr().String(), failed: make(chan error, 1), server: box.Server(hasAdmin)}
	go func() { c.failed <- c.server.Serve(listener) }()
	return c, nil
}

// baseURL returns the catalog's base URL.
func (c *catalogServer) baseURL() string { return "http://" + c.addr + sandbox.BasePath }

// wait waits until ctx is done, and returns nil. If an error stops the server first, wait returns the error.
func (c *catalogServer) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.failed:
		return err
	}
}

// close stops the server and closes the sandbox. It aborts requests that are still running after one second. ctx may be done
// already.
func (c *catalogServer) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
	_ = c.Close() // nothing can be done about an error here
}
