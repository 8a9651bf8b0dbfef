package cli

import (
	"context"
	"errors"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type watchCmd struct {
	callFlags
	goalFlags
	filterFlags
	IDs []string `arg:"" optional:"" sep:"none" name:"id" help:"IDs of the renders. Default: watch all renders of the API key, including new ones, until interrupted."`
}

// Run prints each state change until all generations on the command line have reached the state that --until specifies.
func (c *watchCmd) Run(ctx context.Context, s *session) error {
	v := newWatchView(s, s.OutStyle, s.Print)
	v.raw = s.json
	renders := s.WatchMany(ctx, c.IDs, c.options(easel.Matching(c.toFilter()))...)
	if len(c.IDs) == 1 && c.isZero() {
		renders = s.Watch(ctx, c.IDs[0], c.options()...)
	}
	if err := v.printStates(renders); err != nil {
		return s.reportStillGoing(ctx, err, s.line, c.IDs...)
	}
	return v.resultError()
}

// goalFlags contains the flag --until, which determines the state at which a watch or wait stops.
type goalFlags struct {
	Until string `enum:"terminal,settled" default:"terminal" placeholder:"GOAL" help:"State at which to stop: terminal (finished), or settled (finished, and no refund can follow)."`
}

// options returns the given options. With --until settled, it adds [easel.UntilSettled].
func (g goalFlags) options(more ...easel.CallOption) []easel.CallOption {
	if g.Until == "settled" {
		return append(more, easel.UntilSettled())
	}
	return more
}

type waitCmd struct {
	callFlags
	goalFlags
	ID string `arg:"" name:"id" help:"ID of the render."`
}

// Run waits until a generation has reached the state in --until, and prints only its last state. It uses a watch, because a
// watch reconnects after a lost connection.
func (c *waitCmd) Run(ctx context.Context, s *session) error {
	v := newWatchView(s, s.OutStyle, func(string) {})
	err := v.printStates(s.Watch(ctx, c.ID, c.options()...))
	last := v.generations[c.ID]
	if last != nil {
		s.printGeneration(last, stateWord(last))
	}
	if err != nil {
		return s.reportStillGoing(ctx, err, s.line, c.ID)
	}
	return verdict(last)
}

// reportStillGoing replaces the error of a command that was interrupted or timed out. The new error says that the given renders
// continue and are still charged. followCommand is the command line that the error suggests for following them. If ctx is not
// done, reportStillGoing returns err unchanged.
func (s *session) reportStillGoing(ctx context.Context, err error, followCommand string, ids ...string) error {
	if ctx.Err() == nil {
		return err
	}
	p := &Problem{Exit: ExitInterrupted, Text: "interrupted", Cure: "The renders continue at the catalog, and are still charged. Follow them with: "}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		p.Exit, p.Text = ExitRetry, "not finished when --timeout ran out"
	}
	if len(ids) == 1 {
		p.generationID, p.Cure = ids[0], "The render continues at the catalog, and is still charged. Follow it with: "
	}
	p.Cure += followCommand
	return p
}

// verdict returns an error if a render failed, was refunded or was deleted, and nil otherwise.
func verdict(g *easelv1.Generation) error {
	p := &Problem{Exit: ExitGenerationFailed, Text: "the render " + terminal.OneLine(g.GetGenerationId()) + " ", generationID: g.GetGenerationId()}
	switch g.GetState() {
	case easelv1.State_STATE_FAILED:
		p.Text += "failed"
	case easelv1.State_STATE_REFUNDED:
		p.Text += "failed and was refunded"
	case easelv1.State_STATE_DELETED:
		p.Exit = ExitNotFound
		p.Text += "is not in the catalog: it was deleted, or it never existed under this API key"
	default:
		return nil
	}
	if g.FailureMessage != "" {
		p.Text += ": " + terminal.OneLine(g.FailureMessage)
	}
	return p
}
