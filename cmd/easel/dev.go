package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/terminal"
)

type devCmd struct {
	Callers string `name:"callers" placeholder:"FILE" help:"Share the catalog's API key among the callers in this callers file."`
	listenFlags
	sandboxFlags
	tuningFlags
}

// Faults returns a message for each invalid setting.
func (c *devCmd) Faults() []string {
	list := cli.FaultList(c.sandboxFlags.Faults())
	if c.Callers != "" {
		list.AddError("--callers", checkCallers(c.Callers))
	}
	c.listenFaults(&list)
	c.tuningFaults(&list)
	return list
}

// Run runs a sandbox catalog and the facade in front of it until ctx is done.
func (c *devCmd) Run(ctx context.Context, p *cli.Program) error {
	box := c.config(p.Stderr)
	if c.Dialect == "" {
		box.Dialect.ShowRunning = true // the catalog then shows a state between queued and succeeded
	}
	catalog, err := startCatalog(ctx, "127.0.0.1:0", box, false)
	if err != nil {
		return err
	}
	defer catalog.close(ctx)
	if c.Callers != "" && c.DB != "" {
		c.Key = cmp.Or(c.Key, keptKey)
	}
	key, err := c.makeKey(ctx, catalog.Sandbox)
	if err != nil {
		return err
	}
	facade := &serveCmd{UpstreamURL: catalog.baseURL(), listenFlags: c.listenFlags, tuningFlags: c.tuningFlags}
	c.setUpLedger(facade, key)
	if p.Console().ErrStyle.Terminal { // the banner on the terminal shows the addresses, so only warnings are logged by default
		facade.LogLevel, facade.LogFormat = cmp.Or(c.LogLevel, "warn"), cmp.Or(c.LogFormat, "text")
	}
	return runTogether(ctx, catalog.wait, func(ctx context.Context) error {
		return runFacade(ctx, p.Stderr, facade, func(s *server.Server) {
			_ = c.printBanner(p.Stdout, s, catalog.addr+sandbox.BasePath, p.Self(), c.bannerKey(key)) // an error does not matter, because the server works without the banner
		})
	})
}

// keptKey is the default shared API key for a catalog whose data is kept in a file. It is the same in every run, because the
// ledger stores a digest of the API key with each order, and an order can be resent only with the same key. The key is worthless
// elsewhere.
const keptKey = "sandbox_live_held_by_easel_dev"

// ledgerSuffix is appended to the file name in --db to form the file name of the ledger.
const ledgerSuffix = ".ledger"

// setUpLedger selects the facade's ledger: a file if the catalog's data is in a file, and otherwise memory. If there is a
// callers file, the facade also gets this file and the shared API key.
func (c *devCmd) setUpLedger(facade *serveCmd, key shownKey) {
	facade.LedgerURL, facade.catalogName = ledger.InMemory, "the catalog of easel dev"
	if c.DB != "" {
		facade.LedgerURL = "sqlite:" + c.DB + ledgerSuffix
	}
	if c.Callers != "" {
		facade.CallersFile, facade.devKey = c.Callers, key.text
	}
}

// bannerKey returns the API key for the commands in the banner. If there is a callers file, it returns a placeholder instead,
// because each caller uses its own token.
func (c *devCmd) bannerKey(key shownKey) shownKey {
	if c.Callers == "" {
		return key
	}
	return shownKey{"TOKEN", "a token of a caller in " + c.Callers}
}

// runTogether runs steps concurrently. When ctx is done or one step returns, it cancels the other steps, and waits until they
// have returned. It returns the error of the first step that failed, or nil if this error is [context.Canceled].
func runTogether(ctx context.Context, steps ...func(context.Context) error) error {
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

// dialableAddr converts a bound address to an address that this machine can dial.
func dialableAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && (ip.IsUnspecified() || ip.IsLoopback()) {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}

// printBanner prints the addresses of the servers, and example commands to copy.
func (c *devCmd) printBanner(w io.Writer, s *server.Server, catalog, self string, key shownKey) error {
	grpc, addr, keeping := dialableAddr(s.GRPCAddr()), "", c.retentionText()
	if grpc != "localhost:50051" {
		addr = " --addr " + grpc
	}
	if c.DB != "" {
		keeping += "\nThe ledger of orders is kept in " + c.DB + ledgerSuffix + "."
	}
	_, err := io.WriteString(w, terminal.Sanitize(fmt.Sprintf(`Easel is running with a sandbox catalog. All money is test money.

  gRPC      %[1]s
  REST      http://%[2]s
  console   http://%[2]s/console
  status    http://%[3]s (metrics at /metrics)
  catalog   http://%[4]s
  key       %[5]s (%[6]s)

From another shell:

  export EASEL_API_KEY=%[5]s
  %[8]s generate studio/landscape prompt="a calm sea at dusk" --max-cost 0.50 --out .%[7]s

Or with other tools:

  grpcurl -plaintext -H "authorization: Bearer %[5]s" %[1]s easel.v1.AccountService/GetAccount

  curl -s http://%[2]s/v1/account -H "Authorization: Bearer %[5]s"

Ctrl-C stops it. %[9]s
`, grpc, dialableAddr(s.HTTPAddr()), dialableAddr(s.AdminAddr()), catalog, key.text, key.worth, addr, self, keeping)))
	return err
}
