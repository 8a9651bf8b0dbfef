package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type generateCmd struct {
	callFlags
	inputFlags
	IdempotencyKey string `placeholder:"KEY" help:"Name of this order. Within 12 hours, and under the same API key, the same name is not charged twice: give it to go on after a crash. Without it one is made up, and printed before anything is sent."`
	MaxCost        Amount `placeholder:"AMOUNT" help:"Refuse to order above this price: 0.50 (euros) or 50c (cents)."`
	Watch          bool   `help:"Stay until the render is finished."`
	Out            string `placeholder:"FILE|DIR|-" help:"Download the result to here when it is finished; - is standard output. Implies --watch."`
	Force          bool   `help:"Let --out overwrite a file."`
	Count          int    `default:"1" placeholder:"N" help:"Order the same N times, each with a key of its own: KEY-1 to KEY-N."`
	FromStdin      bool   `help:"Read one order from each line of standard input: a JSON object of inputs, or key=value words. Its key is made of KEY and of what the line says, so that lines may be added or moved before the rest is picked up."`
}

// several reports whether the command is a batch.
func (c *generateCmd) several() bool { return c.Count > 1 || c.FromStdin }

func (c *generateCmd) Faults() []string {
	faults := FaultList(c.faultsOfOut(c.Out))
	faults.Require(c.Count >= 1 && c.Count <= maxOrders, fmt.Sprintf("--count must be from 1 to %d", maxOrders))
	if c.several() {
		faults.Require(c.Out == "" || c.Out != standardOutput && isDir(c.Out), "--out must be a directory where there are several orders")
	}
	if c.FromStdin {
		faults.Require(c.Count == 1, "--count and --from-stdin can't be used together")
		faults.Require(c.InputsJSON == "", "--inputs-json and --from-stdin can't be used together")
	}
	return faults
}

// Run orders a render, and stays with it where that is asked for.
func (c *generateCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, unlimited, func(ctx context.Context, s *session) error {
		if c.Out != "" && c.Out != standardOutput {
			if err := mayReceive(c.Out, c.Force); err != nil {
				return c.notSent(err)
			}
		}
		if c.several() {
			return c.runSeveral(ctx, p, s)
		}
		g, err := c.order(ctx, s)
		if err != nil {
			return err
		}
		if !c.Watch && c.Out == "" {
			s.printRender(g, terminal.OneLine(g.GenerationId))
			return nil
		}
		return c.stay(ctx, s, g)
	})
}

// order places the order: its name is told before anything is sent, and every try
// carries the same name and the same bytes.
func (c *generateCmd) order(ctx context.Context, s *session) (*easelv1.Generation, error) {
	program := ctx
	if c.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, orderLimit)
		defer cancel()
	}
	inputs, err := c.text(ctx, s)
	if err != nil {
		return nil, c.notSent(err)
	}
	key := c.IdempotencyKey
	if key == "" {
		key = rand.Text()
		s.remark("idempotency_key", key, "idempotency key "+key+" (after a crash, give it to --idempotency-key)")
	}
	g, maybe, err := s.place(ctx, &easelv1.CreateGenerationRequest{
		ModelId: c.Model, InputsJson: inputs, IdempotencyKey: key, MaxCostCents: c.MaxCost.Cents,
	})
	if err == nil {
		return g, nil
	}
	if unknown := unclear(program, ctx, err, key); unknown != nil && (maybe || !sentNothing(err)) {
		return nil, unknown
	}
	return nil, c.refused(err, key, maybe)
}

// slow is after how long without an answer it is said that there is none yet.
const slow = 10 * time.Second

// place sends an order until there is an answer that another try would not change. maybe reports whether
// a try before the last may have been taken.
func (s *session) place(ctx context.Context, order *easelv1.CreateGenerationRequest) (g *easelv1.Generation, maybe bool, err error) {
	started := time.Now()
	frame := 0
	defer s.ticking(func() {
		frame++
		s.ShowLive(s.ErrStyle.Paint(terminal.Blue, s.ErrStyle.Spinner(frame)) + " ordering " + briefly(time.Since(started)))
	})()
	if !s.ErrStyle.Terminal {
		defer time.AfterFunc(slow, func() {
			s.remark("waiting", order.IdempotencyKey, "no answer to the order yet, waiting for it")
		}).Stop()
	}
	answer, err := insist(ctx, unsettled, func(err error, again time.Duration) {
		maybe = maybe || !sentNothing(err)
		s.remark("retry", order.IdempotencyKey, "the outcome is not known yet ("+messageOf(err)+
			"); sending the same order again in "+briefly(again))
	}, func() (*easelv1.CreateGenerationResponse, error) {
		return s.generations.CreateGeneration(ctx, order)
	})
	return answer.GetGeneration(), maybe, err
}

// unclear explains an order that ended without an answer: it may have been taken. Of one that was
// answered it gives nil.
func unclear(program, ctx context.Context, err error, key string) error {
	again := mayBeOrdered(key)
	switch code := status.Code(err); {
	case program.Err() != nil && errors.Is(program.Err(), context.Canceled):
		return &Problem{Exit: ExitInterrupted, Text: "interrupted while ordering", Cure: again, Err: err}
	case ctx.Err() != nil || code == codes.DeadlineExceeded:
		return &Problem{Exit: ExitRetry, Text: "the time ran out while ordering", Cure: again, Err: err}
	case unsettled(err):
		return &Problem{Exit: ExitRetry, Text: messageOf(err), Cure: again, Err: err}
	}
	return nil
}

// remark tells something on the way that a person or a program may need later.
func (s *session) remark(name, value, text string) {
	if s.json {
		s.Tell(terminal.Sanitize(fmt.Sprintf(`{"note":%s,%s:%s}`, jsonString(text), jsonString(name), jsonString(value))))
		return
	}
	s.Tell(s.ErrStyle.Paint(terminal.Dim, text))
}

// stay watches the render to its end and fetches its result. What happens on the way is
// told beside the result, so that the output is the result alone.
func (c *generateCmd) stay(ctx context.Context, s *session, g *easelv1.Generation) error {
	f := s.follow([]string{g.GenerationId}, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	tell := s.Tell
	if s.json || s.quiet {
		tell = func(string) {}
	}
	err := s.watching(ctx, f, s.ErrStyle, tell)
	last := cmp.Or(f.last(g.GenerationId), g)
	if err != nil {
		err = c.paid(ctx, s, s.stillGoing(ctx, err, g.GenerationId), last)
	} else if err = verdict(last); err == nil {
		err = c.deliver(ctx, s, last)
	}
	if err != nil && s.json {
		s.printJSON(last) // a program wants to know what has become of its order
	}
	return err
}

// deliver prints the result, and puts it where --out says.
func (c *generateCmd) deliver(ctx context.Context, s *session, g *easelv1.Generation) error {
	brief := terminal.OneLine(g.GenerationId)
	if g.GetText() != nil {
		brief = terminal.SanitizeText(g.GetText().Text)
	}
	if c.Out == "" {
		s.printRender(g, brief)
		return nil
	}
	if c.Out == standardOutput {
		return c.paid(ctx, s, c.pour(ctx, s, g), g)
	}
	var path string
	var err error
	if g.GetText() != nil {
		var file saved
		file, err = writeText(c.Out, c.Force, g)
		path = file.Path
	} else {
		path, err = s.fetch(ctx, &fetching{id: g.GenerationId, out: c.Out, force: c.Force})
	}
	if err != nil {
		return c.paid(ctx, s, err, g)
	}
	s.printRender(g, path)
	if !s.quiet {
		s.Tell("written to " + path)
	}
	return nil
}

// pour writes the result to standard output, and nothing else.
func (c *generateCmd) pour(ctx context.Context, s *session, g *easelv1.Generation) error {
	if g.GetText() == nil {
		return s.fetchOut(ctx, &fetching{id: g.GenerationId})
	}
	return s.pourText(g)
}

// paid says how to get a result that has been ordered and did not arrive. Ordering again
// would be paid for again.
func (c *generateCmd) paid(ctx context.Context, s *session, err error, g *easelv1.Generation) error {
	if err == nil || c.Out == "" {
		return err
	}
	f := explain(ctx, err)
	if g.GetText() != nil {
		cure := "The order stands. Its text is shown by: " + s.again("get", g.GenerationId)
		return &Problem{Exit: f.exit, Text: f.message, Cure: cure, Err: err, render: g.GenerationId}
	}
	words := []string{"download", g.GenerationId}
	cure := "The order stands, and is paid."
	if !g.Terminal {
		cure = "The render goes on at the catalog, and stays paid."
		words = append(words, "--wait", "10m")
	}
	words = append(words, "--out", c.Out)
	if c.Force {
		words = append(words, "--force")
	}
	cure += " Fetch its result with: " + s.again(words...)
	return &Problem{Exit: f.exit, Text: f.message, Cure: cure, Err: err, render: g.GenerationId}
}
