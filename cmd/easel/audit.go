package main

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/terminal"
)

type auditCmd struct {
	listFlags
	Since since `default:"24h" placeholder:"TIME" help:"Show only changes made since this time (RFC 3339, or an age such as 90m or 48h)."`
}

// Run prints the audit log. With -o json, it prints each entry as one line of JSON.
func (c *auditCmd) Run(ctx context.Context, p *cli.Program) error {
	console, asked, rows := p.Console(), admin.AuditQuery{Since: c.Since.Time}, [][]terminal.Cell(nil)
	for {
		page, _, err := readList[admin.AuditLine](ctx, p, &c.adminFlags, "/audit", asked)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, line := range page {
			asked = admin.AuditQuery{Since: line.Time, After: line.ID}
			if c.Output == "json" {
				printed, _ := json.Marshal(line) // cannot fail, because line was decoded from JSON
				console.Print(terminal.Sanitize(string(printed)))
				continue
			}
			rows = append(rows, terminal.Cells(formatUTC(&line.Time), line.Actor, line.Action, line.Subject, string(line.Before), string(line.After), line.From))
		}
	}
	if c.Output == "json" {
		return console.Err()
	}
	return printTable(console, "TIME\tACTOR\tACTION\tSUBJECT\tBEFORE\tAFTER\tFROM", rows)
}

// logAudit returns a function that writes an entry of the audit log to the server's log.
func logAudit(logger *slog.Logger) func(context.Context, ledger.AuditLine) {
	return func(ctx context.Context, a ledger.AuditLine) {
		line := admin.AuditLineOf(a)
		logger.InfoContext(ctx, "audit", "id", line.ID, "actor", line.Actor, "from", line.From, "action", line.Action, "subject", line.Subject, "before", attributeValue(line.Before), "after", attributeValue(line.After))
	}
}

// attributeValue returns JSON text as the value of a log attribute, or nil if the text is empty.
func attributeValue(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	return text
}
