package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Action is an audited action on the ledger or a server. The orders of callers are not audited.
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

// By identifies the actor of an action, and its origin.
type By struct {
	// Actor is the name of the operator, "anonymous" without one, or the cause of an automatic change, such as a file.
	Actor string
	// Origin is the client address, the file or the host.
	Origin string
}

// Act is an audited action with its details.
type Act struct {
	By

	Action  Action
	Subject string // object of the action; empty means the complete ledger
	// Was and Became are the values before and after, encoded as JSON. Nil means no value. They must not contain secrets
	// or the content of orders.
	Was, Became any
}

// Deletion returns the act of a request to delete another owner's generation in the catalog.
func Deletion(by By, generation, owner, state string) Act {
	type known struct {
		Owner string `json:"owner,omitempty"`
		State string `json:"state,omitempty"`
		Asked string `json:"asked,omitempty"`
	}
	return Act{By: by, Action: ActDelete, Subject: generation, Was: known{Owner: owner, State: state}, Became: known{Asked: "deleted"}}
}

// AuditLine is a line of the audit. The database rejects every change except a new line.
type AuditLine struct {
	By

	ID          string
	Time        time.Time
	Action      Action
	Subject     string
	Was, Became string // JSON documents; empty means no value
}

// Audit writes a line. Before an action outside the transactions of the ledger, its caller writes the line, and aborts
// the action if that fails.
func (l *Ledger) Audit(ctx context.Context, act Act) error {
	err := l.tx(ctx, func(tx *transaction) error { return tx.audit(act) })
	if doubt, ok := errors.AsType[*Doubt](err); ok { // the action has not started
		return &Unavailable{doubt.Err, false}
	}
	return err
}

// audit writes the line of an act within its transaction.
func (t *transaction) audit(act Act) error {
	line := AuditLine{By: act.By, ID: "aud_" + rand.Text(), Action: act.Action, Subject: act.Subject}
	var err error
	if line.Was, err = document(act.Was); err != nil {
		return err
	}
	if line.Became, err = document(act.Became); err != nil {
		return err
	}
	if err := t.row([]any{moment{&line.Time}}, `INSERT INTO audit (audit_time, id, actor, origin, action, subject, was, became)
		VALUES ({now}, $1, $2, $3, $4, $5, $6, $7) RETURNING audit_time`, line.ID, line.Actor, line.Origin, string(line.Action), line.Subject, line.Was, line.Became); err != nil {
		return err
	}
	t.audited = append(t.audited, line)
	return nil
}

// document returns a value as JSON, empty for nil.
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

// AuditLines returns the lines after a position, the oldest first, at most the given number.
func (l *Ledger) AuditLines(ctx context.Context, after Position, most int) ([]AuditLine, error) {
	return ask(ctx, l, func(row scanner, a *AuditLine) error {
		return row.Scan(moment{&a.Time}, &a.ID, &a.Actor, &a.Origin, &a.Action, &a.Subject, &a.Was, &a.Became)
	}, `SELECT audit_time, id, actor, origin, action, subject, was, became FROM audit WHERE (audit_time, id) > ($1, $2) ORDER BY audit_time, id LIMIT $3`,
		micros(after.Time), after.ID, most)
}
