package cli

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type watchCmd struct {
	callFlags
	goalFlags
	filterFlags
	IDs []string `arg:"" optional:"" sep:"none" name:"id" help:"The renders. Without any: every render of the API key, new ones as they appear, until interrupted."`
}

// Run tells each change until every named generation has reached the goal.
func (c *watchCmd) Run(ctx context.Context, s *session) error {
	v, filter := newWatchView(s, s.OutStyle, s.Print), c.filter()
	v.raw = s.json
	renders, id := s.WatchMany(ctx, c.IDs, c.options(easel.Matching(filter))...), ""
	v.holds = len(c.IDs) == 0
	if len(c.IDs) == 1 && c.isZero() {
		id = c.IDs[0]
		renders = s.Watch(ctx, id, c.options()...)
	}
	if err := v.follow(renders, id); err != nil {
		return s.stillGoing(ctx, err, c.words(), c.IDs...)
	}
	return v.worst()
}

// ticking redraws the live line until its result is called. Without a terminal nothing is drawn and nothing runs.
func (s *session) ticking(redraw func()) (stop func()) {
	if !s.ErrStyle.Terminal || s.quiet {
		return func() {}
	}
	var drawing sync.WaitGroup
	ticker, done := time.NewTicker(120*time.Millisecond), make(chan struct{})
	drawing.Go(func() {
		for {
			select {
			case <-ticker.C:
				redraw()
			case <-done:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(done)
		drawing.Wait()
		s.ShowLive("")
	}
}

// goalFlags say when a watch or wait is over.
type goalFlags struct {
	Until string `enum:"terminal,settled" default:"terminal" placeholder:"GOAL" help:"terminal: finished. settled: finished, and no refund can follow."`
}

// options are those of a watch with this goal, and more.
func (g goalFlags) options(more ...easel.CallOption) []easel.CallOption {
	if g.Until == "settled" {
		return append(more, easel.UntilSettled())
	}
	return more
}

type waitCmd struct {
	callFlags
	goalFlags
	ID string `arg:"" name:"id" help:"The render."`
}

// Run waits for one generation. It is a watch that shows no state but the last, so that a
// long wait outlives lost connections.
func (c *waitCmd) Run(ctx context.Context, s *session) error {
	v := newWatchView(s, s.OutStyle, func(string) {}) // why it takes longer is said beside the end
	err := v.follow(s.Watch(ctx, c.ID, c.options()...), c.ID)
	last := v.generations[c.ID]
	if last != nil {
		s.printGeneration(last, stateWord(last))
	}
	if err != nil {
		return s.stillGoing(ctx, err, nil, c.ID)
	}
	return verdict(last)
}

// stillGoing explains that the end of a command is not the end of the generation, nor of what
// it costs. flags are those of the watch that goes on.
func (s *session) stillGoing(ctx context.Context, err error, flags []string, ids ...string) error {
	id, advice := "", "The renders go on at the catalog, and stay paid. Pick them up with: "
	if len(ids) == 1 {
		id, advice = ids[0], "The render goes on at the catalog, and stays paid. Pick it up with: "
	}
	advice += s.commandLine(slices.Concat([]string{"watch"}, flags, ids)...)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Problem{Exit: ExitRetry, Text: "not finished when --timeout ran out", Cure: advice, generationID: id}
	case ctx.Err() != nil:
		return &Problem{Exit: ExitInterrupted, Text: "interrupted", Cure: advice, generationID: id}
	}
	return err
}

// verdict turns the end of a generation into the end of a command.
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
		return &Problem{Exit: ExitGenerationFailed, Text: text, generationID: g.GenerationId}
	case easelv1.State_STATE_DELETED:
		return &Problem{Exit: ExitNotFound, Text: "the render " + terminal.OneLine(g.GenerationId) + " is not in the catalog: it was deleted, or never was there under this key", generationID: g.GenerationId}
	}
	return nil
}
