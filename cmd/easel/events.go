package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
)

type eventsCmd struct {
	List   eventsListCmd   `cmd:"" help:"List the events of teams, delivered or not."`
	Replay eventsReplayCmd `cmd:"" help:"Send the events of a team again."`
}

// eventFlags select events.
type eventFlags struct {
	adminFlags
	Since   string `placeholder:"TIME" help:"Only events written since this time (RFC 3339, or an age such as 90m or 48h)."`
	GivenUp bool   `help:"Only events whose delivery was abandoned."`
}

// query returns the query for the flags.
func (f *eventFlags) query(team string) (admin.EventQuery, error) {
	asked := admin.EventQuery{Team: team, GivenUp: f.GivenUp}
	if f.Since == "" {
		return asked, nil
	}
	var err error
	asked.Since, err = sinceOf(f.Since)
	return asked, err
}

// sinceOf returns the time in --since.
func sinceOf(text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	since, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return since, &cli.Problem{Exit: cli.ExitUsage, Text: "--since must be a time, as 2027-01-31T12:00:00Z, or how long ago, as 48h"}
	}
	return since, nil
}

type eventsListCmd struct {
	eventFlags
	Team   string `placeholder:"TEAM" help:"Only events of this team."`
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json."`
}

// Run lists events.
func (c *eventsListCmd) Run(ctx context.Context, p *cli.Program) error {
	asked, err := c.query(c.Team)
	if err != nil {
		return err
	}
	return list(ctx, p, &c.adminFlags, admin.Address("/events", asked), c.Output, "EVENT\tTIME\tTEAM\tTYPE\tSUBJECT\tSTATE\tATTEMPTS\tPROBLEM", func(e admin.Event) []string {
		return []string{e.ID, e.EventTime.UTC().Format(time.RFC3339), e.Team, e.Type, e.Subject, e.State, strconv.FormatInt(e.Attempts, 10), e.Problem}
	})
}

type eventsReplayCmd struct {
	eventFlags
	Team string `required:"" placeholder:"TEAM" help:"The team."`
}

// Run sends events again, step by step.
func (c *eventsReplayCmd) Run(ctx context.Context, p *cli.Program) error {
	if c.Since == "" {
		return &cli.Problem{Exit: cli.ExitUsage, Text: "--since is missing: a time, or how long ago, as 48h"}
	}
	asked, err := c.query(c.Team)
	if err != nil {
		return err
	}
	console, events := p.Console(), 0
	for step := (admin.Replayed{Next: &asked.After}); step.Next != nil; {
		asked.After, step = *step.Next, admin.Replayed{}
		text, err := c.ask(ctx, p, http.MethodPost, "/events:replay", asked)
		if err == nil {
			err = json.Unmarshal(text, &step)
		}
		if err != nil {
			return err
		}
		events += int(step.Events)
		console.ShowLive(counted(events, "event") + " so far")
	}
	console.ShowLive("")
	console.Print(counted(events, "event") + " will be sent again")
	return console.Err()
}
