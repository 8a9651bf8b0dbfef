package main

import (
	"context"
	"strconv"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
)

type eventsCmd struct {
	List   eventsListCmd    `cmd:"" help:"List the events of teams, including undelivered events."`
	Follow cli.FollowEvents `cmd:"" help:"Print the events of your renders and budgets as they occur."`
	Replay eventsReplayCmd  `cmd:"" help:"Resend a team's events."`
}

type eventsListCmd struct {
	listFlags
	Team    string `placeholder:"TEAM" help:"List only events of this team."`
	Since   since  `placeholder:"TIME" help:"List only events written since this time (RFC 3339, or an age such as 90m or 48h)."`
	GivenUp bool   `help:"List only events whose delivery was abandoned."`
}

// Run lists events.
func (c *eventsListCmd) Run(ctx context.Context, p *cli.Program) error {
	asked := admin.EventQuery{Team: c.Team, Since: c.Since.Time, GivenUp: c.GivenUp}
	return printList(ctx, p, &c.listFlags, "/events", asked, "EVENT\tTIME\tTEAM\tTYPE\tSUBJECT\tSTATE\tATTEMPTS\tPROBLEM", func(e admin.Event) []string {
		return []string{e.ID, formatUTC(&e.EventTime), e.Team, e.Type, e.Subject, e.State, strconv.FormatInt(e.Attempts, 10), e.Problem}
	})
}

type eventsReplayCmd struct {
	adminFlags
	Team    string `required:"" placeholder:"TEAM" help:"Resend the events of this team."`
	Since   since  `required:"" placeholder:"TIME" help:"Resend only events written since this time (RFC 3339, or an age such as 90m or 48h)."`
	GivenUp bool   `help:"Resend only events whose delivery was abandoned."`
}

// Run resends the selected events. Each request resends a limited number of events, so Run sends requests until no
// events are left.
func (c *eventsReplayCmd) Run(ctx context.Context, p *cli.Program) error {
	asked := admin.EventQuery{Team: c.Team, Since: c.Since.Time, GivenUp: c.GivenUp}
	console, events := p.Console(), 0
	for step := (admin.Replayed{Next: &asked.After}); step.Next != nil; {
		asked.After, step = *step.Next, admin.Replayed{}
		if err := c.postJSON(ctx, p, "/events:replay", asked, &step); err != nil {
			return err
		}
		events += int(step.Events)
		console.ShowLive(formatCount(events, "event") + " so far")
	}
	console.ShowLive("")
	console.Print(formatCount(events, "event") + " will be sent again")
	return console.Err()
}
