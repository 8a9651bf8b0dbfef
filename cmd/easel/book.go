package main

import (
	"context"
	"fmt"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
)

// ledgerCmd is what operators do with a book, beside the servers that use it.
type ledgerCmd struct {
	Verify ledgerVerifyCmd `cmd:"" help:"Add the journal of a ledger up, and name each difference."`
}

type ledgerVerifyCmd struct{ ledgerFlags }

// Help says what is compared.
func (*ledgerVerifyCmd) Help() string {
	return `Adds up the journal, whose lines are only ever added, and compares it with each order, and the orders with the budgets of each owner and window. It reads one state of the whole book beside the servers that use it and changes nothing. It names each difference in a line of its own, and ends with 1 where there is one.

Examples:

  easel ledger verify --ledger-url sqlite:/var/lib/easel/ledger.db
`
}

// Run verifies a ledger.
func (c *ledgerVerifyCmd) Run(ctx context.Context, p *cli.Program) error {
	console := p.Console()
	looked, err := ledger.Verify(ctx, c.LedgerURL, func(d ledger.Difference) { console.Print(d.String()) }, func(orders int) {
		console.ShowLive(fmt.Sprintf("%d orders", orders))
	})
	console.ShowLive("")
	if err != nil {
		return &cli.Problem{Exit: cli.ExitUsage, Text: err.Error(), Err: err}
	}
	console.Print(fmt.Sprintf("%d orders and %d budgets, %d differences", looked.Orders, looked.Budgets, looked.Differences))
	if looked.Differences > 0 {
		return &cli.Problem{Exit: cli.ExitFailure, Text: "the book does not say what its journal adds up to", Cure: "trust the journal, and restore what was changed beside it from a backup"}
	}
	return console.Err()
}
