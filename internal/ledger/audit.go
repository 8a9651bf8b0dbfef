package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
)

// Audit writes a line to the audit log. Call Audit before an action outside the ledger, and do not start the action if Audit
// fails.
func (l *Ledger) Audit(ctx context.Context, act Act) error {
	err := l.runTx(ctx, func(tx *transaction) error { return tx.addAuditLine(act) })
	if doubt, ok := errors.AsType[*Doubt](err); ok { // it is unknown whether the line was committed; Audit fails, so that the caller does not start the action
		return &Unavailable{doubt.Err, false}
	}
	return err
}

// addAuditLine adds a line for an act to the audit log, as part of the transaction.
func (t *transaction) addAuditLine(act Act) error {
	line := AuditLine{By: act.By, ID: "aud_" + rand.Text(), Action: act.Action, Subject: act.Subject}
	var err error
	if line.Was, err = encodeJSON(act.Was); err != nil {
		return err
	}
	if line.Became, err = encodeJSON(act.Became); err != nil {
		return err
	}
	if err := t.scanRow([]any{moment{&line.Time}}, `INSERT INTO audit (audit_time, id, actor, origin, action, subject, was, became)
		VALUES ({now}, $1, $2, $3, $4, $5, $6, $7) RETURNING audit_time`, line.ID, line.Actor, line.Origin, string(line.Action), line.Subject, line.Was, line.Became); err != nil {
		return err
	}
	t.audited = append(t.audited, line)
	return nil
}

// encodeJSON encodes a value as JSON. It returns an empty string for nil.
func encodeJSON(value any) (string, error) {
	if value == nil {
		return "", nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encode audit line: %w", err)
	}
	return string(text), nil
}

// AuditLines returns at most limit lines of the audit log after a position, oldest first.
func (l *Ledger) AuditLines(ctx context.Context, after Position, limit int) ([]AuditLine, error) {
	return askList(ctx, l, func(row scanner, a *AuditLine) error {
		return row.Scan(moment{&a.Time}, &a.ID, &a.Actor, &a.Origin, &a.Action, &a.Subject, &a.Was, &a.Became)
	}, `SELECT audit_time, id, actor, origin, action, subject, was, became FROM audit WHERE (audit_time, id) > ($1, $2) ORDER BY audit_time, id LIMIT $3`,
		micros(after.Time), after.ID, limit)
}
