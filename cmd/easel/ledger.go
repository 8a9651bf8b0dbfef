package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/terminal"
)

// ledgerFlags contains the flag for the URL of the ledger.
type ledgerFlags struct {
	LedgerURL string `name:"ledger-url" group:"ledger" env:"EASEL_LEDGER_URL" default:"memory" placeholder:"URL" help:"Ledger of orders: memory (lost when the process stops), sqlite:FILE (for one process) or postgres://USER:PASSWORD@HOST/DATABASE (for replicas). A callers file requires SQLite or PostgreSQL."`
}

// openLedger opens the ledger. Events are recorded only if there is a callers file or the ledger is durable.
func (f *facade) openLedger(ctx context.Context) (err error) {
	f.notifier = &notifier{data: service.EventData{Catalog: f.UpstreamURL, Results: f.PublicURL, Texts: f.ContentURL != ""}, count: f.telemetry.Tracer.Notified}
	config := ledger.Config{
		URL: f.LedgerURL, Catalog: cmp.Or(f.catalogName, strings.TrimRight(f.UpstreamURL, "/")), ResendWindow: f.ResendWindow, RefundWindow: f.RefundWindow,
		Contents: f.ContentURL != "", Audited: logAudit(f.logger), Logger: f.logger,
	}
	if f.CallersFile != "" || ledger.IsDurable(f.LedgerURL) {
		config.Events = f.notifier.eventConfig()
	}
	if f.ledger, err = ledger.Open(ctx, config); err != nil {
		return toUsageProblem(err)
	}
	f.closeAt(stopLedger, func(context.Context) error { return f.ledger.Close() })
	if f.ledger.IsCopy() {
		f.logger.InfoContext(ctx, "ledger was copied or restored", "since", f.ledger.CopyTime(), "hint", "easel orders list --held")
	}
	return nil
}

// ledgerCmd contains the operators' commands that open a ledger directly, without a server.
type ledgerCmd struct {
	Verify   ledgerVerifyCmd   `cmd:"" help:"Compare a ledger with its journal, and print each difference."`
	Backup   ledgerBackupCmd   `cmd:"" help:"Back up a SQLite ledger into a new file, even while a server uses it."`
	Copy     ledgerCopyCmd     `cmd:"" help:"Copy a ledger into a new one, for example from SQLite to PostgreSQL."`
	Restored ledgerRestoredCmd `cmd:"" help:"Mark a ledger as restored from a backup, such as a snapshot, a copied file or a write-ahead log."`
	Unseal   ledgerUnsealCmd   `cmd:"" help:"Unseal a ledger that was copied, so that servers can use it again."`
	Migrate  ledgerMigrateCmd  `cmd:"" help:"Update a ledger's schema, as a database user other than the server's."`
}

type ledgerVerifyCmd struct{ ledgerFlags }

// Run compares a ledger with its journal, and prints each difference.
func (c *ledgerVerifyCmd) Run(ctx context.Context, p *cli.Program) error {
	console := p.Console()
	looked, err := ledger.Verify(ctx, c.LedgerURL, printDifference(console))
	return printVerified(console, "", looked, err)
}

// printDifference returns a function that prints one difference between a ledger and its journal.
func printDifference(console *terminal.Console) func(ledger.Difference) {
	return func(d ledger.Difference) { console.Print(d.String()) }
}

// printVerified prints the result of comparing a ledger with its journal: prefix, followed by the counts. It returns an
// error if there are differences. If err is not nil, it prints no result and returns err with the exit code ExitUsage.
func printVerified(console *terminal.Console, prefix string, looked ledger.Verified, err error) error {
	console.ShowLive("")
	if err != nil {
		return toUsageProblem(err)
	}
	console.Print(fmt.Sprintf("%s%d orders and %d budgets, %d differences", prefix, looked.Orders, looked.Budgets, looked.Differences))
	if looked.Differences > 0 {
		return &cli.Problem{Exit: cli.ExitFailure, Text: "the ledger differs from its journal", Cure: "Trust the journal, and restore the other rows from a backup."}
	}
	return console.Err()
}

type ledgerBackupCmd struct {
	ledgerFlags
	File string `arg:"" name:"file" help:"File for the backup. It must not exist yet."`
}

// Run writes a copy of a SQLite ledger into a new file, and verifies the copy.
func (c *ledgerBackupCmd) Run(ctx context.Context, p *cli.Program) error {
	console := p.Console()
	looked, err := ledger.Backup(ctx, c.LedgerURL, c.File, printDifference(console))
	return printVerified(console, c.File+" has ", looked, err)
}

type ledgerCopyCmd struct {
	From string `arg:"" name:"from" help:"URL of the ledger to copy, in the format of EASEL_LEDGER_URL. This ledger is sealed when the copy is complete."`
	To   string `arg:"" name:"to" help:"URL of the new ledger: a file that does not exist, or an empty database."`
}

// Run copies a ledger into a new one, and verifies the copy. The old ledger is sealed when the copy is complete.
func (c *ledgerCopyCmd) Run(ctx context.Context, p *cli.Program) error {
	console := p.Console()
	copied, err := ledger.Copy(ctx, c.From, c.To, thisUser(), func(table string, rows int64) {
		console.ShowLive(fmt.Sprintf("%s: %d", table, rows))
	}, printDifference(console))
	return printVerified(console, fmt.Sprintf("%d rows are copied: ", copied.Rows), copied.Verified, err)
}

type ledgerRestoredCmd struct{ ledgerFlags }

// Run marks a ledger as restored from a snapshot, a copied file or a write-ahead log.
func (c *ledgerRestoredCmd) Run(ctx context.Context, p *cli.Program) error {
	held, err := ledger.Restored(ctx, c.LedgerURL, thisUser())
	return printHeld(p, "the ledger is marked as restored", held, err)
}

type ledgerUnsealCmd struct{ ledgerFlags }

// Run removes the seal from a ledger, so that servers can use it again. Copying a ledger seals it.
func (c *ledgerUnsealCmd) Run(ctx context.Context, p *cli.Program) error {
	held, err := ledger.Unseal(ctx, c.LedgerURL, thisUser())
	return printHeld(p, "the ledger is unsealed, and marked as restored", held, err)
}

// printHeld prints the result of a command that marks a ledger as restored: outcome, followed by the number of held orders.
// A held order is not sent until its caller sends it again. If err is not nil, printHeld prints nothing and returns err
// with the exit code ExitUsage.
func printHeld(p *cli.Program, outcome string, held int64, err error) error {
	if err != nil {
		return toUsageProblem(err)
	}
	return printResult(p, fmt.Sprintf("%s: %d orders are held until their callers send them again; easel orders list --held lists them", outcome, held))
}

// thisUser returns the user who runs this program, and the machine's name, for the audit log.
func thisUser() ledger.By {
	by := ledger.By{Actor: "unknown user"}
	by.Origin, _ = os.Hostname() // empty if the host name is unknown
	if me, err := user.Current(); err == nil {
		by.Actor = "user " + me.Username
	}
	return by
}

type ledgerMigrateCmd struct{ ledgerFlags }

// Run updates a ledger's schema, and prints the applied migrations.
func (c *ledgerMigrateCmd) Run(ctx context.Context, p *cli.Program) error {
	version, applied, err := ledger.Migrate(ctx, c.LedgerURL, thisUser())
	if err != nil {
		return toUsageProblem(err)
	}
	done := ""
	for _, name := range applied {
		done += "applied " + name + "\n"
	}
	return printResult(p, fmt.Sprintf("%sthe schema is %d", done, version))
}
