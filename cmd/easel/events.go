package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/callers"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/terminal"
)

type eventsCmd struct {
	List   eventsListCmd   `cmd:"" help:"List what teams were told, or could not be told."`
	Replay eventsReplayCmd `cmd:"" help:"Tell a team once more."`
}

// eventFlags say which events.
type eventFlags struct {
	adminFlags
	Since   string `placeholder:"TIME" help:"Events written since then: a time as RFC 3339 has it, or how long ago, as 90m or 48h."`
	GivenUp bool   `help:"Events that were given up alone."`
}

// query is what the flags say.
func (f *eventFlags) query(team string) (admin.EventQuery, error) {
	asked := admin.EventQuery{Team: team, GivenUp: f.GivenUp}
	if f.Since == "" {
		return asked, nil
	}
	ago, err := time.ParseDuration(f.Since)
	if err == nil && ago >= 0 {
		asked.Since = time.Now().Add(-ago)
		return asked, nil
	}
	if asked.Since, err = time.Parse(time.RFC3339, f.Since); err != nil {
		return asked, &cli.Problem{Exit: cli.ExitUsage, Text: "--since must be a time, as 2027-01-31T12:00:00Z, or how long ago, as 48h"}
	}
	return asked, nil
}

type eventsListCmd struct {
	eventFlags
	Team   string `placeholder:"TEAM" help:"Events of this team alone."`
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json."`
}

// Help says what is listed.
func (*eventsListCmd) Help() string {
	return `Lists the newest 1000 events, through the admin address of a server: docs/events.md. It is for operators: the admin address asks for no credential.

Examples:

  easel events list --given-up
  easel events list --team studio --since 2h
`
}

// Run lists events.
func (c *eventsListCmd) Run(ctx context.Context, p *cli.Program) error {
	asked, err := c.query(c.Team)
	if err != nil {
		return err
	}
	query := url.Values{"team": {asked.Team}, "since": {asked.Since.Format(time.RFC3339Nano)}, "given_up": {fmt.Sprint(asked.GivenUp)}}
	var answer struct{ Events []admin.Event }
	return c.list(ctx, p, "/events?"+query.Encode(), c.Output, &answer, func() string { return eventsTable(answer.Events) })
}

// eventsTable draws events for people.
func eventsTable(all []admin.Event) string {
	if len(all) == 0 {
		return "There are none.\n"
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "EVENT\tTIME\tTEAM\tTYPE\tSUBJECT\tSTATE\tATTEMPTS\tPROBLEM")
	for _, e := range all {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.ID, e.EventTime.UTC().Format(time.RFC3339), e.Team, e.Type, e.Subject, e.State, e.Attempts, e.Problem)
	}
	_ = table.Flush() // into memory
	return terminal.Sanitize(text.String())
}

type eventsReplayCmd struct {
	eventFlags
	Team string `required:"" placeholder:"TEAM" help:"The team."`
}

// Help says what becomes of them.
func (*eventsReplayCmd) Help() string {
	return `Sends the events of a team once more that were written since a time, with the ids that they had: a receiver that has some of them already knows them by that. Events are kept for seven days.

Examples:

  easel events replay --team studio --since 48h --given-up
  easel events replay --team studio --since 2027-01-31T12:00:00Z
`
}

// Run lets events be sent again.
func (c *eventsReplayCmd) Run(ctx context.Context, p *cli.Program) error {
	if c.Since == "" {
		return &cli.Problem{Exit: cli.ExitUsage, Text: "--since is missing: a time, or how long ago, as 48h"}
	}
	asked, err := c.query(c.Team)
	if err != nil {
		return err
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	text, err := c.ask(ctx, http.MethodPost, "/events:replay", body)
	if err != nil {
		return err
	}
	var answer struct{ Events int }
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	console := p.Console()
	console.Print(counted(answer.Events, "event") + " will be sent again")
	return console.Err()
}

// listedEvents is how many events operators see.
const listedEvents = 1000

// operatorsEvents shows operators what teams are told; nil where nobody can be.
func operatorsEvents(book *ledger.Ledger, known *service.Callers) *admin.Events {
	if known == nil {
		return nil
	}
	return &admin.Events{
		List: func(ctx context.Context, asked admin.EventQuery) (listed []admin.Event, err error) {
			all, err := book.Events(ctx, eventFilter(asked), listedEvents)
			for _, e := range all {
				listed = append(listed, admin.Event{
					ID: e.ID, Team: e.Owner, EventTime: e.Time, Type: e.Type, Subject: e.Subject, State: e.State.String(), Attempts: e.Attempts, Problem: e.Problem,
				})
			}
			return listed, err
		},
		Replay: func(ctx context.Context, asked admin.EventQuery) (events int64, hindrance string, err error) {
			isTold := func(team callers.Team) bool { return team.Name == asked.Team && team.Events != nil }
			if !slices.ContainsFunc(known.List().Teams(), isTold) {
				return 0, "the callers file has no events for a team of this name", nil
			}
			events, err = book.Replay(ctx, eventFilter(asked))
			return events, "", err
		},
	}
}

func eventFilter(asked admin.EventQuery) ledger.EventFilter {
	return ledger.EventFilter{Owner: asked.Team, Since: asked.Since, GivenUp: asked.GivenUp}
}
