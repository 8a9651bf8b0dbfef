package cli

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/terminal"
)

type watchCmd struct {
	callFlags
	goalFlags
	IDs []string `arg:"" optional:"" sep:"none" name:"id" help:"The renders. Without any: every render of the key, new ones as they appear, until interrupted."`
}

// Faults tells a render that is named twice: the contract refuses it.
func (c *watchCmd) Faults() []string {
	faults := c.callFlags.Faults()
	seen := map[string]bool{}
	for _, id := range c.IDs {
		if seen[id] {
			faults = append(faults, terminal.OneLine(id)+" is named twice")
		}
		seen[id] = true
	}
	return faults
}

// Run tells each change until every named render has reached the goal.
func (c *watchCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, unlimited, func(ctx context.Context, s *session) error {
		f := s.follow(c.IDs, c.until())
		err := s.watching(ctx, f, s.OutStyle, s.Print)
		if err != nil {
			return s.stillGoing(ctx, err, c.IDs...)
		}
		return f.worst()
	})
}

// watching follows and shows what it sees: states by tell, everything else beside them.
func (s *session) watching(ctx context.Context, f *follower, look terminal.Style, tell func(string)) error {
	v := newWatchView(s, look, tell)
	f.seen, f.lost = v.seen, v.lost
	if len(f.ids) == 0 {
		all := &gathering{next: v.seen, caughtUp: func() { v.aside("watching; new renders appear as they come") }}
		defer all.release()
		f.seen = all.seen
	}
	defer s.ticking(v.redraw)()
	return f.run(ctx)
}

// ticking redraws the live line until its result is called. Without a terminal nothing
// is drawn and nothing runs.
func (s *session) ticking(redraw func()) (stop func()) {
	if !s.ErrStyle.Terminal || s.quiet {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(120 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				redraw()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		s.ShowLive("")
	}
}
