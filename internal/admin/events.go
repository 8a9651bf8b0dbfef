package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Events are what teams are told, for operators.
type Events struct {
	// List gives the newest events that were written since a time, of a team or of all.
	List func(ctx context.Context, asked EventQuery) ([]Event, error)
	// Replay lets those of a team be sent once more, and gives their number. hindrance says why they can't be.
	Replay func(ctx context.Context, asked EventQuery) (events int64, hindrance string, err error)
}

// EventQuery says which events.
type EventQuery struct {
	Team    string    `json:"team"`
	Since   time.Time `json:"since"`
	GivenUp bool      `json:"given_up,omitempty"` // those alone
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

// list answers GET /events.
func (e Events) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asked := EventQuery{Team: query.Get("team"), GivenUp: query.Get("given_up") == "true"}
	if err := asked.Since.UnmarshalText([]byte(query.Get("since"))); err != nil && query.Has("since") {
		http.Error(w, "since must be a time as RFC 3339 has it", http.StatusBadRequest)
		return
	}
	all, err := e.List(r.Context(), asked)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	writeJSON(w, map[string][]Event{"events": append([]Event{}, all...)})
}

// replay answers POST /events:replay.
func (e Events) replay(w http.ResponseWriter, r *http.Request) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, longestResolution))
	decoder.DisallowUnknownFields()
	var asked EventQuery
	if err := decoder.Decode(&asked); err != nil || asked.Team == "" || asked.Since.IsZero() {
		http.Error(w, `send {"team": TEAM, "since": TIME}`, http.StatusBadRequest)
		return
	}
	events, hindrance, err := e.Replay(r.Context(), asked)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case hindrance != "":
		http.Error(w, hindrance, http.StatusConflict)
	default:
		writeJSON(w, map[string]int64{"events": events})
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value) // a client that went away needs no answer
}
