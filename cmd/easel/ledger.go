package main

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
)

// ledgerFlags has the location of the ledger.
type ledgerFlags struct {
	LedgerURL string `name:"ledger-url" group:"ledger" env:"EASEL_LEDGER_URL" default:"memory" placeholder:"URL" help:"The ledger of orders: memory, which is lost at a stop; sqlite:FILE for one process; postgres://USER:PASSWORD@HOST/DATABASE for replicas. With a callers file it must be one of the last two."`
}

func (c *serveCmd) ledgerFaults(list *cli.FaultList) {
	if err := ledger.Check(c.LedgerURL); err != nil {
		list.Add(err.Error())
	}
	list.Require(c.CallersFile == "" || ledger.IsDurable(c.LedgerURL), "EASEL_CALLERS_FILE needs EASEL_LEDGER_URL=sqlite:FILE or postgres://…: the owners of orders must outlive this process")
}

// openBook opens the ledger. A ledger in memory has no events without a callers file.
func (c *serveCmd) openBook(ctx context.Context, outbox *ledger.Outbox, logger *slog.Logger) (*ledger.Ledger, error) {
	if c.CallersFile == "" && !ledger.IsDurable(c.LedgerURL) {
		outbox = nil
	}
	book, err := ledger.Open(ctx, ledger.Config{
		URL: c.LedgerURL, Catalog: cmp.Or(c.catalogName, strings.TrimRight(c.UpstreamURL, "/")), ResendWindow: c.ResendWindow, RefundWindow: c.RefundWindow,
		Outbox: outbox, Contents: c.ContentURL != "", Audited: logAudit(logger), Logger: logger,
	})
	if err != nil {
		return nil, &cli.Problem{Exit: cli.ExitUsage, Text: err.Error(), Err: err}
	}
	if book.IsCopy() {
		logger.InfoContext(ctx, "ledger was copied or restored", "since", book.CopyTime(), "hint", "easel orders list --held")
	}
	return book, nil
}
