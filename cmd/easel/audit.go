package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/callers"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/terminal"
)

type auditCmd struct {
	adminFlags
	Since  string `default:"24h" placeholder:"TIME" help:"Lines written since then: a time as RFC 3339 has it, or how long ago, as 90m or 48h."`
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json: a line each."`
}

// Run shows the lines.
func (c *auditCmd) Run(ctx context.Context, p *cli.Program) error {
	since, err := sinceOf(c.Since)
	if err != nil {
		return err
	}
	console, asked, rows := p.Console(), admin.AuditQuery{Since: since}, [][]terminal.Cell(nil)
	for {
		text, err := c.ask(ctx, p, http.MethodGet, "/audit?"+asked.Values().Encode(), nil)
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
			rows = append(rows, terminal.Cells(utc(&line.Time), line.Actor, line.From, line.Action, line.Subject, string(line.Before), string(line.After)))
		}
	}
	if c.Output == "json" {
		return console.Err()
	}
	return printTable(console, "TIME\tACTOR\tFROM\tACTION\tSUBJECT\tBEFORE\tAFTER", rows)
}

// logAudit writes each line of the audit to the log, too.
func logAudit(logger *slog.Logger) func(context.Context, ledger.AuditLine) {
	return func(ctx context.Context, a ledger.AuditLine) {
		line := admin.AuditLineOf(a)
		logger.InfoContext(ctx, "audit", "id", line.ID, "actor", line.Actor, "from", line.From, "action", line.Action, "subject", line.Subject, "before", logged(line.Before), "after", logged(line.After))
	}
}

// logged is JSON as the log takes it: nothing is no JSON.
func logged(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	return text
}

// inForce is what the audit has of a callers file.
type inForce struct {
	Digest    string   `json:"digest"`
	Callers   int      `json:"callers"`
	Teams     int      `json:"teams"`
	Operators []string `json:"operators,omitempty"`
	// Since is when it came into force: its line may be younger.
	Since *time.Time `json:"since,omitempty"`

	callers.Changes
}

// mostNamed bounds the names in a line of the audit, of each kind.
const mostNamed = 100

// inForceOf tells of a callers file, without its tokens.
func inForceOf(list *callers.List, changes callers.Changes) inForce {
	f := inForce{Digest: list.Digest(), Callers: len(list.Callers()), Teams: len(list.Teams()), Changes: changes.Bounded(mostNamed)}
	for _, caller := range list.Callers() {
		if caller.Operator && len(f.Operators) < mostNamed {
			f.Operators = append(f.Operators, caller.Name)
		}
	}
	return f
}

// auditCallers has written down what a callers file changes that comes into force.
func auditCallers(lines *lateAudit, file string, before, next *callers.List) {
	if before.Changes(next).Count() == 0 {
		return
	}
	lines.put("callers file", before, next, func(c change) ledger.Act {
		before, next := c.before.(*callers.List), c.after.(*callers.List) //nolint:forcetypeassert // put above
		became := inForceOf(next, before.Changes(next))
		became.Since = &c.since
		return ledger.Act{
			By: ledger.By{Actor: "callers file", Origin: file}, Action: ledger.ActCallers, Subject: thisHost(),
			Was: inForceOf(before, callers.Changes{}), Became: became,
		}
	})
}

// keysInForce is what the audit has of the keys of an issuer.
type keysInForce struct {
	Keys  []string   `json:"keys"` // their names, the first of them
	Count int        `json:"count"`
	Since *time.Time `json:"since,omitempty"` // when they came into force
}

func keysInForceOf(names []string) keysInForce {
	return keysInForce{Keys: append([]string{}, names[:min(len(names), mostNamed)]...), Count: len(names)}
}

// auditKeys has written down the new keys of an issuer, by their names.
func auditKeys(lines *lateAudit) func(issuer callers.Issuer, before, after []string) {
	return func(issuer callers.Issuer, before, after []string) {
		by := ledger.By{Actor: "issuer", Origin: cmp.Or(issuer.KeysFile, fmt.Sprint(told(issuer.KeysURL)))}
		lines.put("keys of "+issuer.Name, keysInForceOf(before), keysInForceOf(after), func(c change) ledger.Act {
			became := c.after.(keysInForce) //nolint:forcetypeassert // put above
			became.Since = &c.since
			return ledger.Act{By: by, Action: ledger.ActKeys, Subject: issuer.Name, Was: c.before, Became: became}
		})
	}
}

// auditStart writes down that a server starts, and with what. It has no secret.
func (c *serveCmd) auditStart(ctx context.Context, book *ledger.Ledger, known *service.Callers, trusts trust) error {
	with := struct {
		Version  string         `json:"version"`
		Revision string         `json:"revision"`
		Settings map[string]any `json:"settings"`
		Callers  *inForce       `json:"callers,omitempty"`
		trust
	}{thisBuild().Version, thisBuild().Revision, c.settings(), nil, trusts}
	if known != nil {
		list := inForceOf(known.List(), callers.Changes{})
		with.Callers = &list
	}
	if err := book.Audit(ctx, ledger.Act{By: thisUser(), Action: ledger.ActStart, Subject: thisHost(), Became: with}); err != nil {
		return &cli.Problem{Exit: cli.ExitRetry, Text: "the ledger (EASEL_LEDGER_URL) takes no line of this start: " + err.Error(), Err: err}
	}
	return nil
}

// settings are those that are set, by their variables.
func (c *serveCmd) settings() map[string]any {
	set := map[string]any{}
	addSettings(set, reflect.ValueOf(*c))
	return set
}

func addSettings(set map[string]any, of reflect.Value) {
	for field, value := range of.Fields() {
		name, isSetting := field.Tag.Lookup("env")
		switch {
		case field.Anonymous:
			addSettings(set, value)
		case isSetting && !value.IsZero():
			set[name] = told(value.Interface())
		}
	}
}

// told is the value of a setting as the audit has it: of an address without a user, a password and a query.
func told(setting any) any {
	switch value := setting.(type) {
	case time.Duration:
		return value.String()
	case string:
		if !strings.Contains(value, "://") {
			return value
		}
		u, err := url.Parse(value)
		if err != nil {
			return "an address"
		}
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		return u.String()
	}
	return setting
}

// thisHost is the name of this machine, or of the pod.
func thisHost() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
