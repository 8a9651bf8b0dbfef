package main

import (
	"context"
	"fmt"
	"os/user"
	"time"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/terminal"
)

// ledgerCmd is what operators do with a book, beside the servers that use it.
type ledgerCmd struct {
	Verify  ledgerVerifyCmd  `cmd:"" help:"Add the journal of a ledger up, and name each difference."`
	Backup  ledgerBackupCmd  `cmd:"" help:"Write a ledger of SQLite into a new file, beside the server that uses it."`
	Copy    ledgerCopyCmd    `cmd:"" help:"Copy a ledger into a new one, as from SQLite to PostgreSQL."`
	Migrate ledgerMigrateCmd `cmd:"" help:"Bring the schema of a ledger up to date, as another database user than the one that serves."`
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
	return tellVerified(console, "", looked, err)
}

// tellVerified says what the journal of a ledger adds up to; err: nothing could be done.
func tellVerified(console *terminal.Console, done string, looked ledger.Verified, err error) error {
	console.ShowLive("")
	if err != nil {
		return &cli.Problem{Exit: cli.ExitUsage, Text: err.Error(), Err: err}
	}
	console.Print(fmt.Sprintf("%s%d orders and %d budgets, %d differences", done, looked.Orders, looked.Budgets, looked.Differences))
	if looked.Differences > 0 {
		return &cli.Problem{Exit: cli.ExitFailure, Text: "the book does not say what its journal adds up to", Cure: "trust the journal, and restore what was changed beside it from a backup"}
	}
	return console.Err()
}

type ledgerBackupCmd struct {
	ledgerFlags
	File string `arg:"" name:"file" help:"The new file."`
}

// Help says what the file is.
func (*ledgerBackupCmd) Help() string {
	return `Writes a ledger of SQLite into a new file, as it is at one moment. The server goes on meanwhile. The file is readable by its user alone, and its journal is added up before it gets its name: with a difference the command ends with 1. To restore, end the server, move the file to where EASEL_LEDGER_URL has it, without the -wal and -shm files that are there, and start the server again: docs/operating.md says what an older book means for orders.

A ledger of PostgreSQL has backups of its own: pg_dump, or a base backup with its log.

Examples:

  easel ledger backup --ledger-url sqlite:/var/lib/easel/ledger.db /backup/ledger-2027-01-31.db
`
}

// Run writes a backup.
func (c *ledgerBackupCmd) Run(ctx context.Context, p *cli.Program) error {
	console := p.Console()
	looked, err := ledger.Backup(ctx, c.LedgerURL, c.File, func(bytes int64) {
		console.ShowLive(fmt.Sprintf("%d MiB", bytes>>20))
	}, func(d ledger.Difference) { console.Print(d.String()) })
	return tellVerified(console, c.File+" has ", looked, err)
}

type ledgerCopyCmd struct {
	From string `arg:"" name:"from" help:"The ledger that is copied, as EASEL_LEDGER_URL names it. It stays as it is."`
	To   string `arg:"" name:"to" help:"The new ledger: a file that there is not, or an empty database."`
}

// Help says how a ledger is moved.
func (*ledgerCopyCmd) Help() string {
	return `Copies a ledger of SQLite or PostgreSQL into a new one of either. Nobody may use them meanwhile: end the servers first, as what they would write is not in the copy. Where a copy was broken off, the same command goes on with it; no server starts on a part. In the end each row is compared, and the journal of the copy is added up.

Start the servers on the copy, and never again on what was copied: an order that only one of the two books has could be charged twice. The password of PostgreSQL may stand in a file that PGPASSFILE names.

Examples:

  easel ledger copy sqlite:/var/lib/easel/ledger.db postgres://easel@db.example/easel
`
}

// Run copies a ledger.
func (c *ledgerCopyCmd) Run(ctx context.Context, p *cli.Program) error {
	console := p.Console()
	copied, err := ledger.Copy(ctx, c.From, c.To, thisUser(), func(table string, rows, all int64) {
		console.ShowLive(fmt.Sprintf("%s: %d of %d", table, rows, all))
	}, func(d ledger.Difference) { console.Print(d.String()) })
	return tellVerified(console, fmt.Sprintf("%d rows are copied and compared: ", copied.Rows), copied.Verified, err)
}

// thisUser is who runs this program, for the audit.
func thisUser() ledger.By {
	by := ledger.By{Actor: "unknown user", Origin: thisHost()}
	if me, err := user.Current(); err == nil {
		by.Actor = "user " + me.Username
	}
	return by
}

type ledgerMigrateCmd struct{ ledgerFlags }

// Help says when it is needed.
func (*ledgerMigrateCmd) Help() string {
	return `Brings the schema of a ledger up to date. A server does that at its start; where the user that it has in the database may not change tables, this command does it before, as the user that owns them. Servers of the release before go on meanwhile; a file of SQLite must not be in use.

Examples:

  easel ledger migrate --ledger-url postgres://owner@db.example/easel
`
}

// Run migrates a ledger.
func (c *ledgerMigrateCmd) Run(ctx context.Context, p *cli.Program) error {
	console := p.Console()
	version, err := ledger.Migrate(ctx, c.LedgerURL, thisUser(), func(change string, took time.Duration) {
		console.Print(fmt.Sprintf("%s in %s", change, took.Round(time.Millisecond)))
	})
	if err != nil {
		return &cli.Problem{Exit: cli.ExitUsage, Text: err.Error(), Err: err}
	}
	console.Print(fmt.Sprintf("the schema is %d", version))
	return console.Err()
}
