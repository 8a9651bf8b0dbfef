package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/terminal"
)

type auditCmd struct {
	adminFlags
	Since  string `default:"24h" placeholder:"TIME" help:"Show only lines written since this time (RFC 3339, or an age such as 90m or 48h)."`
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json: a line each."`
}

// Run prints the lines.
func (c *auditCmd) Run(ctx context.Context, p *cli.Program) error {
	since, err := sinceOf(c.Since)
	if err != nil {
		return err
	}
	console, asked, rows := p.Console(), admin.AuditQuery{Since: since}, [][]terminal.Cell(nil)
	for {
		text, err := c.ask(ctx, p, http.MethodGet, admin.Address("/audit", asked), nil)
		if err != nil {
			return err
		}
		var page struct{ Lines []admin.AuditLine }
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		if len(page.Lines) == 0 {
			break
		}
		for _, line := range page.Lines {
			asked = admin.AuditQuery{Since: line.Time, After: line.ID}
			if c.Output == "json" {
				printed, _ := json.Marshal(line) // it was read as JSON
				console.Print(terminal.Sanitize(string(printed)))
				continue
			}
			rows = append(rows, terminal.Cells(utc(&line.Time), line.Actor, line.Action, line.Subject, changeOf(line.Before, line.After), line.From))
		}
	}
	if c.Output == "json" {
		return console.Err()
	}
	return printTable(console, "TIME\tACTOR\tACTION\tSUBJECT\tCHANGE\tFROM", rows)
}

// changeOf returns the members of two documents that differ, for people: "state unknown → placed, generation gen_1".
func changeOf(before, after json.RawMessage) string {
	was, became := membersOf(before), membersOf(after)
	names := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(became))
	slices.Sort(names)
	var changes []string
	for _, name := range slices.Compact(names) {
		switch from, to := was[name], became[name]; {
		case from == to:
		case from == "" || to == "":
			changes = append(changes, name+" "+from+to)
		default:
			changes = append(changes, name+" "+from+" → "+to)
		}
	}
	return strings.Join(changes, ", ")
}

// membersOf returns the members of an object, strings without quotes. Anything else has none.
func membersOf(document json.RawMessage) map[string]string {
	var raw map[string]json.RawMessage
	_ = json.Unmarshal(document, &raw) // empty if there is no document
	members := map[string]string{}
	for name, value := range raw {
		text := string(value)
		_ = json.Unmarshal(value, &text) // only a string fits
		members[name] = text
	}
	return members
}

// logAudit returns a function that also writes each line of the audit to the log.
func logAudit(logger *slog.Logger) func(context.Context, ledger.AuditLine) {
	return func(ctx context.Context, a ledger.AuditLine) {
		line := admin.AuditLineOf(a)
		logger.InfoContext(ctx, "audit", "id", line.ID, "actor", line.Actor, "from", line.From, "action", line.Action, "subject", line.Subject, "before", logged(line.Before), "after", logged(line.After))
	}
}

// logged returns JSON for the log, nil if it is empty.
func logged(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	return text
}

// thisHost returns the name of this machine or pod. It is empty if the name is unknown.
func thisHost() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
