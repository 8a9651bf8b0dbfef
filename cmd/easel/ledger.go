package main

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
)

// ledgerFlags say where the book of orders is.
type ledgerFlags struct {
	LedgerURL string `name:"ledger-url" group:"ledger" env:"EASEL_LEDGER_URL" placeholder:"URL" help:"The book of orders: sqlite:FILE for one process, postgres://USER:PASSWORD@HOST/DATABASE for replicas. Required with a callers file."`
}

func (c *serveCmd) ledgerFaults(list *cli.FaultList) {
	if c.LedgerURL == "" {
		list.Require(c.CallersFile == "", "EASEL_CALLERS_FILE needs EASEL_LEDGER_URL: without the book of orders nobody knows whose an order is")
		return
	}
	if err := ledger.Check(c.LedgerURL); err != nil {
		list.Add(err.Error())
	}
}

// ledger opens the book of orders, nil where there is none. Whoever uses it has ended when it is closed.
func (c *serveCmd) ledger(ctx context.Context, outbox *ledger.Outbox, logger *slog.Logger) (book *ledger.Ledger, closed func(), err error) {
	if c.LedgerURL == "" {
		return nil, func() {}, nil
	}
	book, err = ledger.Open(ctx, ledger.Config{
		URL: c.LedgerURL, Catalog: cmp.Or(c.catalogName, strings.TrimRight(c.UpstreamURL, "/")), ResendWindow: c.ResendWindow, RefundWindow: c.RefundWindow,
		Outbox: outbox,
	})
	if err != nil {
		return nil, nil, &cli.Problem{Exit: cli.ExitUsage, Text: err.Error(), Err: err}
	}
	return book, func() { logFailure(logger, "the ledger was not closed", book.Close()) }, nil
}
