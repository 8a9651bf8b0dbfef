package admin

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// EventQuery selects the teams' events to list or to replay.
type EventQuery struct {
	Team    string    `json:"team,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	GivenUp bool      `json:"given_up,omitempty"` // selects only abandoned events
	// After is [Replayed.Next] from the previous step of a replay. The zero value starts a replay.
	After ledger.EventPosition `json:"after,omitzero"`
}

// Replayed is the result of one step of a replay.
type Replayed struct {
	Events int64                 `json:"events"`         // number of events that this step of the replay has scheduled to be sent again
	Next   *ledger.EventPosition `json:"next,omitempty"` // position at which the next step starts; nil after the last step
}

func (q EventQuery) filter() ledger.EventFilter {
	return ledger.EventFilter{Owner: q.Team, Since: q.Since, GivenUp: q.GivenUp}
}

// Event describes an event for a team, and its delivery.
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

// listEvents serves GET /events. It returns at most [listed] events.
func (o Orders) listEvents(ctx context.Context, asked EventQuery) (map[string][]Event, error) {
	found, err := o.Ledger.Events(ctx, asked.filter(), listed)
	all := []Event{}
	for _, one := range found {
		all = append(all, Event{
			ID: one.ID, Team: one.Owner, EventTime: one.Time, Type: one.Type, Subject: one.Subject, State: one.State.String(), Attempts: one.Attempts, Problem: one.Problem,
		})
	}
	return map[string][]Event{"events": all}, err
}

// serveReplay serves POST /events:replay. Each request is one step of a
// replay, which schedules a team's events to be sent again.
func (o Orders) serveReplay(ctx context.Context, asked EventQuery) (done Replayed, err error) {
	if asked.Team == "" || asked.Since.IsZero() {
		return done, newInvalidMember(`send {"team": TEAM, "since": TIME}`)
	}
	if !o.Ledger.IsSubscriber(asked.Team) {
		return done, newConflict("the callers file has no team of this name that receives events")
	}
	done.Events, done.Next, err = o.Ledger.Replay(ctx, asked.filter(), asked.After, byOf(ctx))
	return done, err
}
