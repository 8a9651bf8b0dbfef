package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/terminal"
)

type ordersCmd struct {
	List    ordersListCmd    `cmd:"" help:"List the newest orders of all owners."`
	Get     ordersGetCmd     `cmd:"" help:"Show one order with its charges and refunds. Specify the order ID, the render ID or the idempotency key."`
	Resolve ordersResolveCmd `cmd:"" help:"Record the outcome of an order that Easel has stopped resending."`
}

type ordersListCmd struct {
	listFlags
	Unknown  bool   `help:"List only orders whose outcome is unknown. These orders may exist in the catalog. An order with a budget or a maximum price was quoted, and still reserves its quoted price."`
	Reserved bool   `help:"List only orders that still reserve money, because the outcome is unknown or the render has not finished."`
	Held     bool   `help:"List only orders that were open when the ledger was copied or restored, and that still wait for their callers or for 'easel orders resolve'."`
	Owner    string `placeholder:"OWNER" help:"List only orders of this owner: a team, or a caller without a team."`

	State string            `placeholder:"STATE" enum:",${orderstates}" default:"" help:"List only orders in this state: ${orderstates}."`
	Since since             `placeholder:"TIME" help:"List only orders placed since this time (RFC 3339, or an age such as 90m or 48h)."`
	Label map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"List only orders with this label. Repeat the flag to require several labels."`
	Limit int               `default:"100" placeholder:"N" help:"Maximum number of orders to show, up to 1000."`
}

// Run prints orders.
func (c *ordersListCmd) Run(ctx context.Context, p *cli.Program) error {
	asked := admin.OrderQuery{
		Unknown: c.Unknown, Reserved: c.Reserved, Held: c.Held, Owner: c.Owner, State: c.State, Since: c.Since.Time, Labels: c.Label, Limit: c.Limit,
	}
	return printList(ctx, p, &c.listFlags, "/orders", asked, orderHeads, orderRow)
}

// orderHeads contains the column titles of an order list. The most useful columns are first, because a narrow terminal may
// show only the first columns.
const orderHeads = "STATE\tRENDER\tKEY\tTIME\tOWNER\tRESERVED\tCOST\tPROBLEM\tUNTIL\tORDER\tCALLER\tMODEL\tLEASES"

// orderRow returns an order's cells, one for each column in orderHeads.
func orderRow(o admin.Order) []string {
	reserved := ""
	if o.ReservedCents != 0 {
		reserved = cli.Money(o.ReservedCents, "")
	}
	return []string{
		o.State, o.GenerationID, o.IdempotencyKey, formatUTC(&o.OrderTime), o.Owner, reserved, costOf(o), o.Problem,
		formatUTC(o.SentAgainUntil), o.ID, o.Caller, o.ModelID, strconv.Itoa(o.Leases),
	}
}

// formatUTC formats a time in UTC for display. It returns "" for nil.
func formatUTC(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// costOf formats an order's cost. It returns "" if the cost is unknown.
func costOf(o admin.Order) string {
	if o.CostCents == nil {
		return ""
	}
	return cli.Money(*o.CostCents, "")
}

type ordersGetCmd struct {
	listFlags
	Name string `arg:"" name:"name" help:"The order ID from 'easel orders list', the render ID, or the idempotency key."`
}

// Run prints all details of each order whose ID, generation ID or idempotency key is c.Name.
func (c *ordersGetCmd) Run(ctx context.Context, p *cli.Program) error {
	orders, text, err := readList[admin.Order](ctx, p, &c.adminFlags, "/orders", admin.OrderQuery{Name: c.Name})
	switch {
	case err != nil:
		return err
	case len(orders) == 0:
		return &cli.Problem{
			Exit: cli.ExitNotFound, Text: "the ledger has no order, render or idempotency key " + c.Name, Cure: "easel orders list shows the newest orders; rejected orders are deleted after a day",
		}
	case c.Output == "json":
		return printResult(p, text)
	}
	console := p.Console()
	for n, o := range orders {
		if n > 0 {
			console.Print("")
		}
		printOrder(console, o)
	}
	return console.Err()
}

// printOrder prints each field of an order on one line, and the order's journal lines as a table.
func printOrder(console *terminal.Console, o admin.Order) {
	resolved, held := "", ""
	if o.Resolved {
		resolved = "an operator has recorded its outcome"
	}
	if o.Held {
		held = "it was open when the ledger was copied or restored; send it again from its caller, or use easel orders resolve"
	}
	labels := make([]string, 0, len(o.Labels))
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		labels = append(labels, name+"="+o.Labels[name])
	}
	fields := [][2]string{
		{"order", o.ID},
		{"ordered", formatUTC(&o.OrderTime)},
		{"owner", o.Owner},
		{"caller", o.Caller},
		{"idempotency key", o.IdempotencyKey},
		{"model", o.ModelID},
		{"labels", strings.Join(labels, " ")},
		{"state", o.State},
		{"render", o.GenerationID},
		{"resolved", resolved},
		{"reserved", cli.Money(o.ReservedCents, "")},
		{"cost", costOf(o)},
		{"refunded", cli.Money(o.RefundedCents, "")},
		{"unconfirmed", cli.Money(o.UnconfirmedCents, "")},
		{"leases", strconv.Itoa(o.Leases)},
		{"last problem", o.Problem},
		{"held", held},
		{"expires", formatUTC(o.ExpireTime)},
		{"sent again until", formatUTC(o.SentAgainUntil)},
	}
	for i := range fields {
		fields[i][1] = terminal.OneLine(fields[i][1])
	}
	console.Fields(fields)
	var rows [][]terminal.Cell
	for _, m := range o.Movements {
		rows = append(rows, terminal.Cells(formatUTC(&m.Time), m.Kind, cli.Money(m.Cents, ""), cmp.Or(m.Actor, "easel")))
	}
	if len(rows) > 0 {
		console.Table([]string{"TIME", "MOVEMENT", "AMOUNT", "BY"}, rows)
	}
}

type ordersResolveCmd struct {
	adminFlags
	Name    string `arg:"" name:"name" help:"The order ID, the render ID, or the idempotency key."`
	Placed  string `placeholder:"GENERATION" xor:"outcome" required:"" help:"Record that the order created this generation."`
	Refused bool   `xor:"outcome" required:"" help:"Record that the order does not exist in the catalog. The order's reservation is released, and its idempotency key can be used again."`
	Force   bool   `help:"Record the --placed generation without looking it up in the catalog."`
}

// Run records the outcome of an order.
func (c *ordersResolveCmd) Run(ctx context.Context, p *cli.Program) error {
	asked := admin.Resolution{ID: c.Name, Placed: c.Placed, Refused: c.Refused, Force: c.Force}
	if err := c.postJSON(ctx, p, "/orders:resolve", asked, &asked); err != nil {
		return err
	}
	done := asked.ID + " is resolved"
	if c.Force && c.Placed != "" {
		done += ", without a check in the catalog for " + c.Placed
	}
	return printResult(p, done)
}
