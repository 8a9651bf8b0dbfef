package cli

import (
	"context"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// FollowEvents is the 'easel events follow' command.
type FollowEvents struct {
	callFlags
	ResumeToken string   `placeholder:"TOKEN" help:"Continue after the event with this token. With -o json, each event is printed with its token."`
	Since       moment   `placeholder:"DATE" help:"Start with the first event since this day (2026-11-01, UTC) or time (RFC 3339). Default: the next event."`
	Type        []string `placeholder:"TYPE" help:"Print only events of this type, such as easel.generation.succeeded. Separate several types with commas."`
	Owner       string   `placeholder:"OWNER" help:"Print only events of this owner (for operators)."`
}

// Run prints events as they arrive, until the command is interrupted.
func (c *FollowEvents) Run(ctx context.Context, s *session) error {
	query := easel.EventQuery{ResumeToken: c.ResumeToken, Start: c.Since.start, Types: c.Type, Owner: c.Owner}
	for event, err := range s.Events(ctx, query) {
		if e := baseOf(err); e != nil && len(e.FieldViolations) == 1 && e.FieldViolations[0].Field == "authorization" {
			return &Problem{Err: err, Cure: "easel watch prints the changes of all renders of your API key."}
		}
		if err != nil {
			return err
		}
		s.Print(s.eventLine(event))
	}
	return s.Err()
}

// eventLine formats an event as one line of JSON or text. With --quiet, the text is only the ID of the
// render or, for an event about a budget, DAY or MONTH.
func (s *session) eventLine(e *easel.Event) string {
	subject := terminal.OneLine(e.Raw.GetGeneration().GetGenerationId())
	if e.Budget != nil {
		subject = terminal.OneLine(e.Budget.Window)
	}
	switch {
	case s.json:
		return compactJSON(&easelv1.WatchEventsResponse{Message: &easelv1.WatchEventsResponse_Event{Event: e.Raw}, ResumeToken: e.ResumeToken})
	case s.quiet:
		return subject
	}
	return joinNonEmpty(formatTime(e.Raw.GetCreateTime()), terminal.OneLine(e.Type), subject, terminal.OneLine(e.Owner))
}
