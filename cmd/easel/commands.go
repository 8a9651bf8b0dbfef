package main

import (
	_ "embed" // help.txt
	"strings"

	"github.com/alecthomas/kong"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// commands contains all commands of the program.
type commands struct {
	Demo    demoCmd    `cmd:"" group:"try" help:"Run a complete example (quote, order, watch, download), and save the picture to a file."`
	Dev     devCmd     `cmd:"" group:"try" help:"Run the facade with a sandbox catalog, and print instructions for calling it."`
	Sandbox sandboxCmd `cmd:"" group:"try" help:"Run only the sandbox catalog, over HTTP."`
	Serve   serveCmd   `cmd:"" group:"run" help:"Run the facade in front of a catalog."`
	Callers callersCmd `cmd:"" group:"run" help:"Check a callers file, or create a service token."`
	Erase   eraseCmd   `cmd:"" group:"run" help:"Erase the labels, render records and events of orders."`
	Audit   auditCmd   `cmd:"" group:"run" help:"Show the changes that operators have made."`
	Orders  ordersCmd  `cmd:"" group:"run" help:"List the orders in the ledger, or record the outcome of an order."`
	Ledger  ledgerCmd  `cmd:"" group:"run" help:"Verify, back up, copy or migrate a ledger."`
	Content contentCmd `cmd:"" group:"run" help:"Verify the copies of results, or copy a result again."`
	Events  eventsCmd  `cmd:"" group:"run" help:"List the events sent to teams, follow them, or send them again."`
	Health  cli.Health `cmd:"" group:"run" help:"Check whether a server is serving."`
	Doctor  doctorCmd  `cmd:"" group:"run" help:"Check a catalog at no cost. Report the values that Easel cannot read, and how to make them readable."`

	cli.Commands
}

//go:embed help.txt
var longHelp string // detailed help for the commands

// grammar returns the commands and flags of the program.
func grammar() cli.Grammar {
	return cli.Grammar{
		Commands: func() any { return &commands{} },
		Options: []kong.Option{
			kong.Description("Paid renders over gRPC: order once, watch instead of polling, download complete files."),
			kong.ExplicitGroups(groups()),
			cli.LongHelp(longHelp),
			kong.Vars{"dialects": strings.Join(dialectNames(), ","), "adminpath": sandbox.AdminPath, "orderstates": strings.Join(admin.OrderStates, ",")},
		},
	}
}

// groups returns the groups of commands and flags in the help text, in the order in which they are printed.
func groups() []kong.Group {
	return []kong.Group{
		{Key: "try", Title: "Try it, with no key and no money:"},
		{Key: "run", Title: "Run it:"},
		{Key: "call", Title: "Call it:"},
		{Key: "more", Title: "More:"},
		{Key: "connection", Title: "Connection:"},
		{Key: "output", Title: "Output:"},
		{Key: "upstream", Title: "The catalog:"},
		{Key: "callers", Title: "Callers:"},
		{Key: "ledger", Title: "The ledger of orders:"},
		{Key: "content", Title: "Copies of results:"},
		{Key: "listen", Title: "Addresses (port 0 selects a free port):"},
		{Key: "tls", Title: "TLS (files are read again when they change):"},
		{Key: "poll", Title: "Polling:"},
		{Key: "life", Title: "Streams and shutdown:"},
		{Key: "limits", Title: "Limits:"},
		{Key: "logs", Title: "Logs and traces:"},
	}
}
