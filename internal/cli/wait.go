package cli

import (
	"context"
	"errors"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
	"google.golang.org/protobuf/types/known/durationpb"
)

// goalFlags say when a watch or wait is over.
type goalFlags struct {
	Until string `enum:"terminal,settled" default:"terminal" placeholder:"GOAL" help:"terminal: finished. settled: finished, and no refund can follow."`
}

func (g goalFlags) until() easelv1.WatchUntil {
	if g.Until == "settled" {
		return easelv1.WatchUntil_WATCH_UNTIL_SETTLED
	}
	return easelv1.WatchUntil_WATCH_UNTIL_TERMINAL
}

type waitCmd struct {
	callFlags
	goalFlags
	ID string `arg:"" name:"id" help:"The render."`
}

// Run waits for one render. It is a watch that shows no state but the last, so that a
// long wait outlives lost connections.
func (c *waitCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, unlimited, func(ctx context.Context, s *session) error {
		f := s.follow([]string{c.ID}, c.until())
		v := newWatchView(s, s.OutStyle, func(string) {})
		f.seen, f.lost = v.seen, v.lost // why it takes longer is said beside the end
		err := f.run(ctx)
		if last := f.last(c.ID); last != nil {
			s.printRender(last, stateWord(last))
		}
		if err != nil {
			return s.stillGoing(ctx, err, c.ID)
		}
		return verdict(f.last(c.ID))
	})
}

// stillGoing explains that the end of a command is not the end of the render, nor of what
// it costs.
func (s *session) stillGoing(ctx context.Context, err error, ids ...string) error {
	render := ""
	again := "The renders go on at the catalog, and stay paid. Pick them up with: "
	if len(ids) == 1 {
		render = ids[0]
		again = "The render goes on at the catalog, and stays paid. Pick it up with: "
	}
	again += s.again(append([]string{"watch"}, ids...)...)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Problem{Exit: ExitRetry, Text: "not finished when --timeout ran out", Cure: again, render: render}
	case ctx.Err() != nil:
		return &Problem{Exit: ExitInterrupted, Text: "interrupted", Cure: again, render: render}
	}
	return err
}

// verdict turns the end of a render into the end of a command.
func verdict(g *easelv1.Generation) error {
	switch g.GetState() {
	case easelv1.State_STATE_FAILED, easelv1.State_STATE_REFUNDED:
		text := "the render " + terminal.OneLine(g.GenerationId) + " " + stateWord(g)
		if g.State == easelv1.State_STATE_REFUNDED {
			text = "the render " + terminal.OneLine(g.GenerationId) + " failed and was refunded"
		}
		if g.FailureMessage != "" {
			text += ": " + terminal.OneLine(g.FailureMessage)
		}
		return &Problem{Exit: ExitRenderFailed, Text: text, render: g.GenerationId}
	case easelv1.State_STATE_DELETED:
		return &Problem{Exit: ExitNotFound, Text: "the render " + terminal.OneLine(g.GenerationId) + " is not in the catalog: it was deleted, or never was there under this key", render: g.GenerationId}
	}
	return nil
}

// span is a duration as the contract has it.
func span(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
