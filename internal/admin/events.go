package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// maxRequestBytes is the maximum size of the body of a request.
const maxRequestBytes = 64 << 10

// events serves the events of teams to operators.
type events struct{ ledger *ledger.Ledger }

// EventQuery selects events.
type EventQuery struct {
	Team    string    `json:"team,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	GivenUp bool      `json:"given_up,omitempty"` // selects only abandoned events
	// After is [Replayed.Next] from the previous step of a replay.
	After ledger.EventPosition `json:"after,omitzero"`
}

// Replayed is the result of one step of a replay.
type Replayed struct {
	Events int64                 `json:"events"`         // number of events that will be sent again
	Next   *ledger.EventPosition `json:"next,omitempty"` // position of the next step; nil after the last one
}

func (q EventQuery) filter() ledger.EventFilter {
	return ledger.EventFilter{Owner: q.Team, Since: q.Since, GivenUp: q.GivenUp}
}

// Event is an event for a team.
type Event struct {
	ID        string    `json:"id"`
	Team      string    `json:"team"`
	EventTime time.Time `json:"event_time"`
	Type      string    `json:"type"`
	Subject   string    `json:"subject"`
	State     string    `json:"state"`
	Attempts  int64     `json:"attempts"`
	Problem   string    `json:"problem,omitempty"`
}

// list serves GET /events.
func (e events) list(w http.ResponseWriter, r *http.Request) {
	var asked EventQuery
	if err := decodeQuery(r, &asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found, err := e.ledger.Events(r.Context(), asked.filter(), listed)
	all := []Event{}
	for _, one := range found {
		all = append(all, Event{
			ID: one.ID, Team: one.Owner, EventTime: one.Time, Type: one.Type, Subject: one.Subject, State: one.State.String(), Attempts: one.Attempts, Problem: one.Problem,
		})
	}
	answer(w, map[string][]Event{"events": all}, err)
}

// replay serves POST /events:replay with one step of a replay.
func (e events) replay(w http.ResponseWriter, r *http.Request) {
	var asked EventQuery
	if err := decode(w, r, &asked); err != nil || asked.Team == "" || asked.Since.IsZero() {
		http.Error(w, `send {"team": TEAM, "since": TIME}`, http.StatusBadRequest)
		return
	}
	if !e.ledger.IsSubscriber(asked.Team) {
		http.Error(w, "the callers file has no events for a team of this name", http.StatusConflict)
		return
	}
	var done Replayed
	var err error
	done.Events, done.Next, err = e.ledger.Replay(r.Context(), asked.filter(), asked.After, byOf(r.Context()))
	answer(w, done, err)
}

// Address returns the path of a list with the query parameter.
func Address(path string, query any) string {
	text, _ := json.Marshal(query) // cannot fail for strings, numbers and times
	return path + "?query=" + url.QueryEscape(string(text))
}

// decodeQuery decodes the query parameter of a URL, a JSON object. If the parameter is missing, the query selects everything.
func decodeQuery(r *http.Request, asked any) error {
	text := r.URL.Query().Get("query")
	if text == "" {
		return nil
	}
	if err := decodeStrict(strings.NewReader(text), asked); err != nil {
		return fmt.Errorf("invalid query: %w", err)
	}
	return nil
}

// decode decodes the body of a request.
func decode(w http.ResponseWriter, r *http.Request, asked any) error {
	return decodeStrict(http.MaxBytesReader(w, r.Body, maxRequestBytes), asked)
}

func decodeStrict(from io.Reader, asked any) error {
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	return decoder.Decode(asked)
}

// answer sends a value as JSON, or the error of the ledger.
func answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}
