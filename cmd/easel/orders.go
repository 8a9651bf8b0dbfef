package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/terminal"
)

type ordersCmd struct {
	List    ordersListCmd    `cmd:"" help:"List the newest orders of the ledger, or those of unknown outcome."`
	Resolve ordersResolveCmd `cmd:"" help:"Say what became of an order that stays unknown."`
}

// adminFlags say where a server tells operators of its ledger.
type adminFlags struct {
	AdminAddr string `env:"EASEL_ADMIN_ADDR" default:"127.0.0.1:9464" placeholder:"HOST:PORT" help:"The admin address of the server."`
}

// adminTimeout is how long the admin address may take.
const adminTimeout = 15 * time.Second

// ask sends a request to the admin address, with what is asked as JSON, and gives the body of a good answer.
func (f *adminFlags) ask(ctx context.Context, method, path string, asked any) ([]byte, error) {
	var body bytes.Buffer
	if asked != nil {
		if err := json.NewEncoder(&body).Encode(asked); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	addr := f.AdminAddr
	if strings.HasPrefix(addr, ":") {
		addr = "localhost" + addr
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, &body)
	if err != nil {
		return nil, wrongSetting("EASEL_ADMIN_ADDR", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return nil, &cli.Problem{Exit: cli.ExitRetry, Text: "the admin address of the server does not answer at " + addr, Cure: "--admin-addr names another", Err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode == http.StatusNotFound:
		return nil, &cli.Problem{Exit: cli.ExitUsage, Text: "there is no " + path + " at " + addr, Cure: "--admin-addr names the admin address of the server; events need EASEL_CALLERS_FILE"}
	case answer.StatusCode == http.StatusServiceUnavailable:
		return nil, &cli.Problem{Exit: cli.ExitRetry, Text: strings.TrimSpace(string(text))}
	case answer.StatusCode >= http.StatusMultipleChoices:
		return nil, &cli.Problem{Exit: cli.ExitUsage, Text: strings.TrimSpace(string(text))}
	}
	return text, nil
}

// list prints what the admin address lists under a name, one row for each: as it came, or as a table for people.
func list[T any](ctx context.Context, p *cli.Program, f *adminFlags, path, output, header string, row func(T) string) error {
	text, err := f.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	console := p.Console()
	if output == "json" {
		console.PrintText(terminal.Sanitize(string(text)))
		return console.Err()
	}
	var answer map[string][]T
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	var lines strings.Builder
	table, none := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0), true
	_, _ = fmt.Fprintln(table, header)
	for _, all := range answer {
		for _, one := range all {
			_, _ = fmt.Fprintln(table, row(one))
			none = false
		}
	}
	_ = table.Flush() // into memory
	if none {
		lines.Reset()
		lines.WriteString("There are none.\n")
	}
	console.PrintText(terminal.Sanitize(lines.String()))
	return console.Err()
}

type ordersListCmd struct {
	adminFlags
	Unknown bool   `help:"Orders of unknown outcome alone: they may exist. They hold their quoted price; without a budget and without a highest price there is no quote, and nothing is held."`
	Output  string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json."`
}

// Help says what is listed.
func (*ordersListCmd) Help() string {
	return `Lists the newest 1000 orders of the ledger, of all owners, through the admin address of a server. It is for operators: the admin address asks for no credential.

An order of unknown outcome is sent again by itself, within EASEL_RESEND_WINDOW and under the API key of its first attempt. What is still unknown after that is for easel orders resolve. PROBLEM is what its last attempt has met: a catalog that refuses a repeat may have the order all the same.

Examples:

  easel orders list --unknown
`
}

// Run lists orders.
func (c *ordersListCmd) Run(ctx context.Context, p *cli.Program) error {
	path := "/orders"
	if c.Unknown {
		path += "?unknown=true"
	}
	return list(ctx, p, &c.adminFlags, path, c.Output, "ORDER\tTIME\tOWNER\tCALLER\tMODEL\tSTATE\tRENDER\tRESERVED\tCOST\tPROBLEM", func(o admin.Order) string {
		cost := ""
		if o.CostCents != nil {
			cost = cli.Money(*o.CostCents, "")
		}
		return strings.Join([]string{
			o.ID, o.OrderTime.UTC().Format(time.RFC3339), o.Owner, o.Caller, o.ModelID, o.State, o.GenerationID, cli.Money(o.ReservedCents, ""), cost, o.Problem,
		}, "\t")
	})
}

type ordersResolveCmd struct {
	adminFlags
	Order   string `arg:"" name:"id" help:"The order, as easel orders list has it."`
	Placed  string `placeholder:"GENERATION" xor:"outcome" required:"" help:"The order has placed this generation."`
	Refused bool   `xor:"outcome" required:"" help:"The catalog has no such order. Its money is free again, and its idempotency key too."`
	Force   bool   `help:"Record the generation of --placed without asking the catalog for it."`
}

// Help says when it is needed.
func (*ordersResolveCmd) Help() string {
	return `Records what became of an order that nobody sends again any more: EASEL_RESEND_WINDOW is over, or its API key is no longer in force. Until then it is refused. Look at the catalog first: an order that is called refused and exists was paid for, and is nobody's. The server asks the catalog for the generation of --placed, and for its model. What was said wrongly can be corrected by saying it again.

Examples:

  easel orders resolve ord_4VKX --placed gen_8M2
  easel orders resolve ord_4VKX --refused
`
}

// Run resolves an order.
func (c *ordersResolveCmd) Run(ctx context.Context, p *cli.Program) error {
	asked := admin.Resolution{ID: c.Order, Placed: c.Placed, Refused: c.Refused, Force: c.Force}
	if me, err := user.Current(); err == nil {
		asked.By = me.Username
	}
	if _, err := c.ask(ctx, http.MethodPost, "/orders:resolve", asked); err != nil {
		return err
	}
	console := p.Console()
	console.Print(c.Order + " is resolved")
	return console.Err()
}

// placedOrders holds what an operator says of orders against the catalog.
type placedOrders struct {
	book   *ledger.Ledger
	client *catalog.Client
	held   *catalog.Credential // nil where callers bring their API keys
}

// differs says why an order can't have placed a generation: the catalog is asked for it.
func (p placedOrders) differs(ctx context.Context, asked admin.Resolution) (hindrance string, err error) {
	if !catalog.CanBeNamed(asked.Placed) {
		return fmt.Sprintf("callers could not name %q: it is no id of a render", asked.Placed), nil
	}
	if asked.Force {
		return "", nil
	}
	order, found, err := p.book.Get(ctx, asked.ID)
	if err != nil || !found {
		return "", err // the ledger says so too
	}
	if p.held == nil {
		return "callers bring their API keys here, and without one the catalog can't be asked for " + asked.Placed + ": --force records it all the same", nil
	}
	read, err := p.client.Generation(ctx, *p.held, asked.Placed)
	switch {
	case catalog.IsAbsent(err):
		return "the catalog has no " + asked.Placed + ": --force records it all the same", nil
	case err != nil:
		return fmt.Sprintf("the catalog can't be asked for %s: try again, or --force records it all the same (%v)", asked.Placed, err), nil
	case read.ModelID != "" && read.ModelID != order.ModelID:
		return fmt.Sprintf("%s is of the model %s, and the order of %s: --force records it all the same", asked.Placed, read.ModelID, order.ModelID), nil
	}
	return "", nil
}
