package admin

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// AuditLine is a line of the audit: who has changed what.
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

// AuditLineOf is a line as operators and the log have it.
func AuditLineOf(a ledger.AuditLine) AuditLine {
	return AuditLine{
		ID: a.ID, Time: a.Time, Actor: a.Actor, From: a.Origin, Action: string(a.Action), Subject: a.Subject,
		Before: json.RawMessage(a.Was), After: json.RawMessage(a.Became),
	}
}

// AuditQuery says which lines: those after one of a time and id, the oldest first.
type AuditQuery struct {
	Since time.Time
	After string
}

// Values are the query of an address.
func (q AuditQuery) Values() url.Values {
	return url.Values{"since": {q.Since.UTC().Format(time.RFC3339Nano)}, "after": {q.After}}
}

// audit answers GET /audit with a page of lines, the oldest first. An empty page is the end.
func (o Orders) audit(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asked := AuditQuery{After: query.Get("after")}
	if err := asked.Since.UnmarshalText([]byte(query.Get("since"))); err != nil && query.Get("since") != "" {
		http.Error(w, sinceRule, http.StatusBadRequest)
		return
	}
	found, err := o.Ledger.AuditLines(r.Context(), ledger.Position{Time: asked.Since, ID: asked.After}, listed)
	all := []AuditLine{}
	for _, one := range found {
		all = append(all, AuditLineOf(one))
	}
	answer(w, map[string][]AuditLine{"lines": all}, err)
}
