package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/terminal"
)

type devCmd struct {
	Callers string `name:"callers" placeholder:"FILE" help:"Share the catalog's API key among the callers in this callers file."`
	Events  string `name:"events" placeholder:"URL" help:"Send events of renders to this receiver on http://127.0.0.1 or localhost (see docs/operators.md). The only team is then dev, and the printed key is its token."`
	listenFlags
	sandboxFlags
	tuningFlags

	ownCallers bool // the callers file was created for --events
}

// Faults returns the invalid settings.
func (c *devCmd) Faults() []string {
	list := cli.FaultList(c.sandboxFlags.Faults())
	if c.Callers != "" {
		list.AddError("--callers", checkCallers(c.Callers))
		list.Require(c.Events == "", "--events and --callers: use one of them; --events creates its own callers file")
	}
	if c.Events != "" {
		_, err := auth.Parse(devCallers(c.Events, "", ""))
		list.Require(err == nil, "--events must be http://127.0.0.1:PORT/… or https://…")
	}
	c.listenFaults(&list)
	c.tuningFaults(&list)
	return list
}

// Run runs a sandbox catalog and the facade in front of it until ctx is done.
func (c *devCmd) Run(ctx context.Context, p *cli.Program) error {
	box := c.config(p.Stderr)
	if c.Dialect == "" {
		box.Dialect.ShowRunning = true // otherwise no state is visible between queued and succeeded
	}
	catalog, err := startCatalog(ctx, "127.0.0.1:0", box, false)
	if err != nil {
		return err
	}
	defer catalog.close(ctx)
	if (c.Callers != "" || c.Events != "") && c.DB != "" {
		c.Key = cmp.Or(c.Key, keptKey)
	}
	key, err := c.makeKey(ctx, catalog.Sandbox)
	if err != nil {
		return err
	}
	facade := &serveCmd{UpstreamURL: catalog.baseURL(), listenFlags: c.listenFlags, tuningFlags: c.tuningFlags}
	removed, err := c.writeCallers(key)
	if err != nil {
		return err
	}
	defer removed()
	c.keep(facade, key)
	if p.Console().ErrStyle.Terminal { // a person reads the output, and the banner has the addresses
		facade.LogLevel, facade.LogFormat = cmp.Or(c.LogLevel, "warn"), cmp.Or(c.LogFormat, "text")
	}
	return together(ctx, catalog.wait, func(ctx context.Context) error {
		return runFacade(ctx, p.Stderr, facade, func(s *server.Server) {
			_ = c.printBanner(p.Stdout, s, catalog.addr+sandbox.BasePath, p.Self(), c.shown(key)) // not needed to serve
		})
	})
}

// keptKey is the shared API key for a catalog that is kept in a file. The ledger recognizes its orders by this key. The key is
// worthless elsewhere.
const keptKey = "sandbox_live_held_by_easel_dev"

// ledgerSuffix is appended to the --db file name to name the ledger's file.
const ledgerSuffix = ".ledger"

// keep sets the facade's ledger, which lasts as long as the catalog's data. If there is a callers file, it also sets the shared
// API key.
func (c *devCmd) keep(facade *serveCmd, key shownKey) {
	facade.LedgerURL, facade.catalogName = ledger.InMemory, "the catalog of easel dev"
	if c.DB != "" {
		facade.LedgerURL = "sqlite:" + c.DB + ledgerSuffix
	}
	if c.Callers != "" {
		facade.CallersFile, facade.heldKey = c.Callers, key.text
	}
}

// shown returns the key for the commands in the banner. With a callers file, each caller uses its own token instead of key.
func (c *devCmd) shown(key shownKey) shownKey {
	if c.Callers == "" || c.ownCallers {
		return key
	}
	return shownKey{"TOKEN", "a token of a caller in " + c.Callers}
}

// devSecret signs the events that 'easel dev' sends. It is worthless elsewhere.
const devSecret = "whsec_ZWFzZWwgZGV2IHNpZ25zIGV2ZXJ5IGV2ZW50IHdpdGggdGhpcw=="

// devCallers returns a callers file with one team that receives events.
func devCallers(url, secretFile, token string) []byte {
	return fmt.Appendf(nil, "teams: {dev: {events: {url: %q, secret_file: %q}}}\ncallers: [{name: dev-service, team: dev, operator: true, tokens: [%q]}]\n",
		url, cmp.Or(secretFile, "secret"), auth.Hash(token))
}

// writeCallers creates the callers file of --events, and returns a function that removes it.
func (c *devCmd) writeCallers(key shownKey) (removed func(), err error) {
	if c.Events == "" {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "easel-dev-")
	if err != nil {
		return nil, err
	}
	secret := filepath.Join(dir, "secret")
	c.Callers, c.ownCallers = filepath.Join(dir, "callers.yaml"), true
	err = errors.Join(os.WriteFile(secret, []byte(devSecret+"\n"), 0o600), os.WriteFile(c.Callers, devCallers(c.Events, secret, key.text), 0o600))
	return func() { _ = os.RemoveAll(dir) }, err
}

// together runs steps concurrently. When ctx is done or one step returns, it cancels the other steps.
func together(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, step := range steps {
		group.Go(func() error {
			defer cancel()
			return step(ctx)
		})
	}
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// dialable returns a bound address in a form that this machine can dial.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && (ip.IsUnspecified() || ip.IsLoopback()) {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}

// printBanner prints the addresses, and commands to copy.
func (c *devCmd) printBanner(w io.Writer, s *server.Server, catalog, self string, key shownKey) error {
	grpc, addr, events, keeping := dialable(s.GRPCAddr()), "", "", c.keeping()
	if grpc != "localhost:50051" {
		addr = " --addr " + grpc
	}
	if c.DB != "" {
		keeping += "\nThe ledger of orders is kept in " + c.DB + ledgerSuffix + "."
	}
	if c.Events != "" {
		events = fmt.Sprintf("  events    %s (signed with %s)\n", c.Events, devSecret)
	}
	_, err := io.WriteString(w, terminal.Sanitize(fmt.Sprintf(`Easel is running with a sandbox catalog. All money is test money.

  gRPC      %[1]s
  REST      http://%[2]s
  status    http://%[3]s (metrics at /metrics)
  catalog   http://%[4]s
  key       %[5]s (%[6]s)
%[10]s
From another shell:

  export EASEL_API_KEY=%[5]s
  %[8]s generate studio/landscape prompt="a calm sea at dusk" --max-cost 0.50 --out .%[7]s

Or with other tools:

  grpcurl -plaintext -H "authorization: Bearer %[5]s" %[1]s easel.v1.AccountService/GetAccount

  curl -s http://%[2]s/v1/account -H "Authorization: Bearer %[5]s"

Ctrl-C ends it. %[9]s
`, grpc, dialable(s.HTTPAddr()), dialable(s.AdminAddr()), catalog, key.text, key.worth, addr, self, keeping, events)))
	return err
}
