package easel

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// EventQuery selects events by a filter and by the position of the first event. The zero value selects all events from now on.
type EventQuery struct {
	ResumeToken string    // token of the last event that the caller has processed; if it is set, Start is ignored
	Start       time.Time // selects the events written since this time; zero means from now on
	Types       []string  // selects the events of these types; empty means all types
	Owner       string    // selects the events of this owner; only an operator may set it
}

// Event reports a change to a render or a budget. It has the same ID and type as the webhook for this change.
type Event struct {
	ID, Type    string
	Time        time.Time // time when the event was written
	Owner       string
	Render      *Render // nil if the event reports a budget
	Budget      *Budget // nil if the event reports a render
	ResumeToken string  // token with which Events continues after this event; store it after you have processed the event
	Raw         *easelv1.Event
}

// Events yields the durable events of the caller's team, or of the caller if it has no team. It yields each event at least
// once, and the events of one render in order. It handles failures in the same way as Watch, and each new stream continues
// after the last event. The loop continues until the caller leaves it or an error ends it. If events after the resume token may
// have been deleted, the loop ends with an error whose reason is RESUME_TOKEN_EXPIRED.
func (c *Client) Events(ctx context.Context, query EventQuery, options ...CallOption) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		ctx, o, cancel := c.applyOptions(ctx, streamLimits, options)
		defer cancel()
		next := &easelv1.WatchEventsRequest{
			ResumeToken: query.ResumeToken, StartTime: timestampOf(query.Start), HeartbeatInterval: durationpb.New(c.heartbeat),
			Filter: &easelv1.EventFilter{Types: query.Types, Owner: query.Owner},
		}
		w := watch[*easelv1.WatchEventsResponse, Event]{attempts: c.attempt(o, "WatchEvents", "", ""), endless: true}
		w.open = func(ctx context.Context) (stream[*easelv1.WatchEventsResponse], error) {
			return c.Generations.WatchEvents(ctx, next)
		}
		w.take = func(message *easelv1.WatchEventsResponse) *Event {
			next.ResumeToken = message.GetResumeToken()
			return eventOf(message)
		}
		follow(ctx, w, yield)
	}
}

// eventOf returns the event in a message, or nil if the message contains no event.
func eventOf(message *easelv1.WatchEventsResponse) *Event {
	e := message.GetEvent()
	if e == nil {
		return nil
	}
	event := &Event{ID: e.GetEventId(), Type: e.GetType(), Time: timeOf(e.GetCreateTime()), Owner: e.GetOwner(), ResumeToken: message.GetResumeToken(), Raw: e}
	if e.Generation != nil {
		event.Render = renderOf(e.GetGeneration())
	}
	if e.Budget != nil {
		budget := budgetOf(e.GetBudget())
		event.Budget = &budget
	}
	return event
}
