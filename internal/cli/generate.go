package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type generateCmd struct {
	callFlags
	inputFlags
	IdempotencyKey string `placeholder:"KEY" help:"Name of this order. Within 12 hours, and under the same API key, the same name is not charged twice: give it to go on after a crash. Without it one is made up, and printed before anything is sent."`
	MaxCost        Amount `placeholder:"AMOUNT" help:"Refuse to order above this price: 0.50 (euros) or 50c (cents)."`
	Label          Labels `placeholder:"NAME=VALUE" help:"A label of the order, for lists and reports; it never goes to the catalog. Give it again for another one."`
	Watch          bool   `help:"Stay until the render is finished."`
	Out            string `placeholder:"FILE|DIR|-" help:"Download the result to here when it is finished; - is standard output. Implies --watch."`
	Force          bool   `help:"Let --out overwrite a file."`
}

// Faults returns what is wrong with the flags.
func (c *generateCmd) Faults() []string { return c.faultsOfOut(c.Out) }

// Run orders a generation, and stays with it where that is asked for.
func (c *generateCmd) Run(ctx context.Context, s *session) error {
	if c.Out != "" && c.Out != standardOutput {
		if err := mayReceive(c.Out, c.Force); err != nil {
			return c.notSent(err)
		}
	}
	g, err := c.order(ctx, s)
	if err != nil {
		return err
	}
	if !c.Watch && c.Out == "" {
		s.printGeneration(g, terminal.OneLine(g.GenerationId))
		s.tellNext(g)
		return nil
	}
	return c.stay(ctx, s, g)
}

// tellNext names the command that goes on with a render that was ordered.
func (s *session) tellNext(g *easelv1.Generation) {
	if s.json || s.quiet || g.Terminal && g.GetFile() == nil {
		return
	}
	words := []string{"watch", g.GenerationId}
	if g.Terminal {
		words[0] = "download"
	}
	s.aside(terminal.OneLine("go on with: " + s.commandLine(words...)))
}

// order places the order: its name is told before anything is sent.
func (c *generateCmd) order(ctx context.Context, s *session) (*easelv1.Generation, error) {
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
	started, frame := time.Now(), 0
	defer s.ticking(func() {
		frame++
		s.ShowLive(s.ErrStyle.Paint(terminal.Blue, s.ErrStyle.Spinner(frame)) + " ordering " + formatDuration(time.Since(started)))
	})()
	g, maybe, err := s.place(ctx, c.orderOf(inputs, key))
	if err == nil {
		return g, nil
	}
	return nil, c.refused(err, key, maybe)
}

func (c *generateCmd) orderOf(inputs, key string) easel.Order {
	return easel.Order{Model: c.Model, InputsJSON: inputs, Key: key, MaxCostCents: c.MaxCost.Cents, Labels: c.Label}
}

const (
	// slowAnswer is after how long without an answer it is said that there is none yet.
	slowAnswer = 10 * time.Second
	// failureTimeout is after how long the server tells of an attempt that failed, while it goes on: see CreateGeneration.
	failureTimeout = 1500 * time.Millisecond
)

// place sends an order until there is an answer that another try would not change, and tells why there is none yet. maybe
// reports whether a try before the last may have been taken.
func (s *session) place(ctx context.Context, order easel.Order) (g *easelv1.Generation, maybe bool, err error) {
	var before atomic.Bool
	said := ""
	defer s.onRetry("CreateGeneration", order.Key, func(r easel.Retry) {
		before.Store(before.Load() || !sentNothing(r.Err))
		if why := troubleOf(r.Err); said != why { // while the reason stays the same, once is enough
			said = why
			known := "the outcome is not known yet"
			if !before.Load() {
				known = "this try has ordered nothing" // an earlier one under the key may have
			}
			s.remark("retry", order.Key, known+" ("+why+"); sending the same order again in "+formatDuration(r.Delay))
		}
	})()
	if !s.ErrStyle.Terminal {
		defer time.AfterFunc(slowAnswer, func() { s.remark("waiting", order.Key, "no answer to the order yet, waiting for it") }).Stop()
	}
	placed, err := s.Order(metadata.AppendToOutgoingContext(ctx, "easel-failure-timeout", failureTimeout.String()), order)
	if err != nil {
		return nil, before.Load(), err
	}
	if placed.Replayed && !before.Load() { // else the earlier order may be this run's own
		s.remark("idempotency_key", order.Key, "this idempotency key had an order already, and this is its render")
	}
	return placed.Raw, before.Load(), nil
}

// troubleOf says why an order has no answer yet: what the catalog has answered, where the server tells that.
func troubleOf(err error) string {
	text, answered := messageOf(err), ""
	if e := baseOf(err); e != nil {
		answered = e.Metadata["upstream_status"]
	}
	if answered == "" {
		return text
	}
	if _, said, found := strings.Cut(text, "idempotency_key again"); found { // before that stands what every unknown outcome has
		text = strings.TrimLeft(said, ":; ")
	}
	return strings.TrimSuffix("the catalog answers "+terminal.OneLine(answered)+": "+text, ": ")
}

// stay watches the generation to its end and downloads its result. What happens on the way is
// told beside the result, so that the output is the result alone.
func (c *generateCmd) stay(ctx context.Context, s *session, g *easelv1.Generation) error {
	v := newWatchView(s, s.ErrStyle, s.Tell)
	if s.json || s.quiet {
		v.tell = func(string) {}
	}
	err := v.follow(s.Watch(ctx, g.GenerationId), g.GenerationId)
	last := cmp.Or(v.generations[g.GenerationId], g)
	if err != nil {
		err = c.paid(ctx, s, s.stillGoing(ctx, err, nil, g.GenerationId), last)
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
		s.printGeneration(g, brief)
		return nil
	}
	file, err := s.result(ctx, g, c.Out, c.Force)
	if err != nil || c.Out == standardOutput {
		return c.paid(ctx, s, err, g)
	}
	s.printGeneration(g, file.Path)
	if !s.quiet {
		s.Tell("written to " + file.Path)
	}
	return nil
}

// paid says how to get a result that has been ordered and did not arrive. Ordering again would be paid for again.
func (c *generateCmd) paid(ctx context.Context, s *session, err error, g *easelv1.Generation) error {
	if err == nil || c.Out == "" {
		return err
	}
	words, cure := []string{"download", g.GenerationId}, "The order stands, and is paid. Fetch its result with: "
	if !g.Terminal {
		cure = "The render goes on at the catalog, and stays paid. Fetch its result with: "
		words = append(words, "--wait", "10m")
	}
	words = append(words, "--out", c.Out)
	if c.Force {
		words = append(words, "--force")
	}
	if g.GetText() != nil {
		words, cure = []string{"get", g.GenerationId}, "The order stands. Its text is shown by: "
	}
	f := explain(ctx, err)
	cure += s.commandLine(words...)
	return &Problem{Exit: f.ExitCode, Text: f.Message, Cure: cure, Err: err, generationID: g.GenerationId}
}
