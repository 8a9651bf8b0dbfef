package admin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// AuditLine is a line of the audit log: a change and its actor.
type AuditLine struct {
	ID      string          `json:"id"`
	Time    time.Time       `json:"time"`
	Actor   string          `json:"actor"`
	From    string          `json:"from,omitempty"`
	Action  string          `json:"action"`
	Subject string          `json:"subject,omitempty"`
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
}

// AuditLineOf converts a line of the ledger's audit log to the form in which it is sent to operators
// and written to the program's log.
func AuditLineOf(a ledger.AuditLine) AuditLine {
	return AuditLine{
		ID: a.ID, Time: a.Time, Actor: a.Actor, From: a.Origin, Action: string(a.Action), Subject: a.Subject,
		Before: json.RawMessage(a.Was), After: json.RawMessage(a.Became),
	}
}

// AuditQuery selects the lines of the audit log that follow the position given by Since and After,
// oldest first.
type AuditQuery struct {
	Since time.Time `json:"since,omitzero"`
	After string    `json:"after,omitempty"`
}

// serveAudit serves GET /audit with a page of lines, oldest first. An empty page marks the end.
func (o Orders) serveAudit(ctx context.Context, asked AuditQuery) (map[string][]AuditLine, error) {
	found, err := o.Ledger.AuditLines(ctx, ledger.Position{Time: asked.Since, ID: asked.After}, listed)
	all := []AuditLine{}
	for _, one := range found {
		all = append(all, AuditLineOf(one))
	}
	return map[string][]AuditLine{"lines": all}, err
}
