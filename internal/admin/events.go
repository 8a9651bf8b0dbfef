package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// events are what teams are told, for operators.
type events struct{ ledger *ledger.Ledger }

// EventQuery says which events.
type EventQuery struct {
	Team    string    `json:"team"`
	Since   time.Time `json:"since"`
	GivenUp bool      `json:"given_up,omitempty"` // those alone
	// After is [Replayed.Next] of the step before, of a replay.
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

// Event is something that a team is told.
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

// sinceRule is what the time of a query must be.
const sinceRule = "since must be a time as RFC 3339 has it"

// list answers GET /events.
func (e events) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asked := EventQuery{Team: query.Get("team"), GivenUp: query.Get("given_up") == "true"}
	if err := asked.Since.UnmarshalText([]byte(query.Get("since"))); err != nil && query.Has("since") {
		http.Error(w, sinceRule, http.StatusBadRequest)
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

// replay answers POST /events:replay with one step of a replay.
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

// decode reads what a request asks for.
func decode(w http.ResponseWriter, r *http.Request, asked any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, longestResolution))
	decoder.DisallowUnknownFields()
	return decoder.Decode(asked)
}

// answer answers with what was found, or that the ledger has not told it.
func answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value) // a client that went away needs no answer
}
