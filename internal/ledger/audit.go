package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Action is what somebody does to the book or to a server, beside orders that callers place.
type Action string

// The actions.
const (
	ActResolve  Action = "order.resolve"
	ActErase    Action = "order.erase"
	ActDelete   Action = "generation.delete"
	ActReplay   Action = "events.replay"
	ActMigrate  Action = "ledger.migrate"
	ActCopy     Action = "ledger.copy"
	ActSeal     Action = "ledger.seal"
	ActUnseal   Action = "ledger.unseal"
	ActRestored Action = "ledger.restored"
	ActAdopt    Action = "content.adopt"
	ActFetch    Action = "content.fetch"
)

// By is who does something, and from where.
type By struct {
	// Actor is the name of an operator, "anonymous" where nobody has one, or what has changed by itself, such as a file.
	Actor string
	// Origin is the address, the file or the host.
	Origin string
}

// Act is something that is done.
type Act struct {
	By

	Action  Action
	Subject string // what it is done to; "" is the whole
	// Was and Became are before and after, as values that become JSON; nil is nothing. No secret may stand there, and
	// nothing that names content.
	Was, Became any
}

// Deletion is that somebody asks the catalog to delete a generation that is somebody else's.
func Deletion(by By, generation, owner, state string) Act {
	type known struct {
		Owner string `json:"owner,omitempty"`
		State string `json:"state,omitempty"`
		Asked string `json:"asked,omitempty"`
	}
	return Act{By: by, Action: ActDelete, Subject: generation, Was: known{Owner: owner, State: state}, Became: known{Asked: "deleted"}}
}

// AuditLine is a line of the audit. Lines are only ever added: the database refuses all else.
type AuditLine struct {
	By

	ID          string
	Time        time.Time
	Action      Action
	Subject     string
	Was, Became string // documents of JSON; "" is nothing
}

// Audit writes a line. Whoever is about to do what no transaction of the ledger does writes it first, and does
// nothing where that fails.
func (l *Ledger) Audit(ctx context.Context, act Act) error {
	err := l.tx(ctx, func(tx *transaction) error { return tx.audit(act) })
	if doubt, ok := errors.AsType[*Doubt](err); ok { // nothing is done yet
		return &Unavailable{doubt.Err, false}
	}
	return err
}

// audit writes the line of what the transaction does.
func (t *transaction) audit(act Act) error {
	line, err := act.line()
	if err != nil {
		return err
	}
	if err := t.row([]any{moment{&line.Time}}, insertLine+` RETURNING audit_time`, line.values()...); err != nil {
		return err
	}
	t.audited = append(t.audited, line)
	return nil
}

// insertLine writes a line, by its values.
const insertLine = `INSERT INTO audit (audit_time, id, actor, origin, action, subject, was, became) VALUES ({now}, $1, $2, $3, $4, $5, $6, $7)`

func (a AuditLine) values() []any {
	return []any{a.ID, a.Actor, a.Origin, string(a.Action), a.Subject, a.Was, a.Became}
}

// line is the line of what is done, before it is written.
func (a Act) line() (line AuditLine, err error) {
	line = AuditLine{By: a.By, ID: "aud_" + rand.Text(), Action: a.Action, Subject: a.Subject}
	if line.Was, err = document(a.Was); err == nil {
		line.Became, err = document(a.Became)
	}
	return line, err
}

// addLine writes the line of an act in a transaction that is not one of the pools.
func (l *Ledger) addLine(ctx context.Context, tx querier, act Act) error {
	line, err := act.line()
	if err == nil {
		_, err = tx.ExecContext(ctx, l.dialect.words.Replace(insertLine), line.values()...)
	}
	return err
}

// document is a value as JSON; "" where there is none.
func document(value any) (string, error) {
	if value == nil {
		return "", nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("a line of the audit can't be written: %w", err)
	}
	return string(text), nil
}

// AuditLines are the lines after a position, the oldest first, most of them at once.
func (l *Ledger) AuditLines(ctx context.Context, after Position, most int) ([]AuditLine, error) {
	return ask(ctx, l, func(row scanner, a *AuditLine) error {
		return row.Scan(moment{&a.Time}, &a.ID, &a.Actor, &a.Origin, &a.Action, &a.Subject, &a.Was, &a.Became)
	}, `SELECT audit_time, id, actor, origin, action, subject, was, became FROM audit WHERE (audit_time, id) > ($1, $2) ORDER BY audit_time, id LIMIT $3`,
		micros(after.Time), after.ID, most)
}
