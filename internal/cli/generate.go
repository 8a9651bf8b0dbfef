package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type generateCmd struct {
	callFlags
	inputFlags
	IdempotencyKey string     `placeholder:"KEY" help:"Name of this order. Within 12 hours, and under the same API key, the same name is not charged twice: give it to go on after a crash. Without it one is made up, and printed before anything is sent."`
	MaxCost        Amount     `placeholder:"AMOUNT" help:"Refuse to order above this price: 0.50 (euros) or 50c (cents)."`
	Label          labelWords `sep:"none" placeholder:"NAME=VALUE" help:"A label of the order, for lists and reports; it never goes to the catalog. Give it again for another one."`
	Watch          bool       `help:"Stay until the render is finished."`
	Out            string     `placeholder:"FILE|DIR|-" help:"Download the result to here when it is finished; - is standard output. Implies --watch."`
	Force          bool       `help:"Let --out overwrite a file."`
	Count          int        `default:"1" placeholder:"N" help:"Order the same N times, each with an idempotency key of its own: KEY-1 to KEY-N."`
	FromStdin      bool       `help:"Read one order from each line of standard input: a JSON object of inputs, or key=value words. Its idempotency key is made of KEY and of what the line says, so that lines may be added or moved before the rest is picked up."`
}

// Help implements kong.HelpProvider.
func (*generateCmd) Help() string {
	return `Every order has an idempotency key, which is told before anything is sent. After a crash, give it to --idempotency-key: what was ordered is not ordered again. Inputs are compared with what the model says of itself before any money moves.

Ctrl-C ends the command and not the render, which stays paid; it says how to pick it up. A second Ctrl-C ends it at once.

Several orders (--count, --from-stdin) go their own ways, at most 1000. Of --count 10, order 7 has the key KEY-7; the key of a line is made of what it says, so that lines may come and go before the rest is picked up. --max-cost holds for each, and --out names a directory. With -o json each order is a line when it is finished. Where the balance or the key is refused, no further order is sent.

Examples:

  easel generate studio/landscape prompt="a calm sea" --max-cost 0.50 --out sea.png
  easel generate studio/haiku prompt=@theme.txt --watch --label campaign=spring
  easel generate studio/landscape prompt="a calm sea" --count 4 --out pictures/
  easel generate studio/landscape size=640x400 --from-stdin --out pictures/ < orders.txt

where a line of orders.txt is one of:

  prompt="snow on hills" seed=7
  {"prompt": "fog", "size": "640x400"}   (without inputs on the command line)
`
}

// several reports whether the command is a batch.
func (c *generateCmd) several() bool { return c.Count > 1 || c.FromStdin }

func (c *generateCmd) Faults() []string {
	faults := FaultList(append(c.faultsOfOut(c.Out), c.Label.faults()...))
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

// Run orders a generation, and stays with it where that is asked for.
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
			s.printGeneration(g, terminal.OneLine(g.GenerationId))
			s.tellNext(g)
			return nil
		}
		return c.stay(ctx, s, g)
	})
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
	s.Tell(s.ErrStyle.Paint(terminal.Dim, terminal.OneLine("go on with: "+s.commandLine(words...))))
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
		ModelId: c.Model, InputsJson: inputs, IdempotencyKey: key, MaxCostCents: c.MaxCost.Cents, Labels: c.Label.values(),
	})
	if err == nil {
		return g, nil
	}
	if unknown := unclear(program, ctx, err, key); unknown != nil && (maybe || !sentNothing(err)) {
		return nil, unknown
	}
	return nil, c.refused(err, key, maybe)
}

// slowAnswer is after how long without an answer it is said that there is none yet.
const slowAnswer = 10 * time.Second

// place sends an order until there is an answer that another try would not change. maybe reports whether
// a try before the last may have been taken.
func (s *session) place(ctx context.Context, order *easelv1.CreateGenerationRequest) (g *easelv1.Generation, maybe bool, err error) {
	started := time.Now()
	var next atomic.Pointer[time.Time] // when it is sent again, nil before an attempt has failed
	frame := 0
	defer s.ticking(func() {
		frame++
		line := s.ErrStyle.Paint(terminal.Blue, s.ErrStyle.Spinner(frame)) + " ordering " + formatDuration(time.Since(started))
		if at := next.Load(); at != nil && time.Until(*at) > 0 {
			line += s.ErrStyle.Paint(terminal.Yellow, "  again in "+formatDuration(time.Until(*at)))
		}
		s.ShowLive(line)
	})()
	if !s.ErrStyle.Terminal {
		defer time.AfterFunc(slowAnswer, func() {
			s.remark("waiting", order.IdempotencyKey, "no answer to the order yet, waiting for it")
		}).Stop()
	}
	told := ""
	answer, err := retry(ctx, outcomeUnknown, func(err error, delay time.Duration) {
		maybe = maybe || !sentNothing(err)
		next.Store(new(time.Now().Add(delay)))
		if why := troubleOf(err); told != why { // while the reason stays the same, once is enough
			told = why
			known := "the outcome is not known yet"
			if !maybe {
				known = "this try has ordered nothing" // an earlier one under the key may have
			}
			s.remark("retry", order.IdempotencyKey, known+" ("+why+"); sending the same order again in "+formatDuration(delay))
		}
	}, func() (*easelv1.CreateGenerationResponse, error) {
		return s.create(ctx, order)
	})
	if answer.GetReplayed() && !maybe { // else the earlier order may be this run's own
		s.remark("idempotency_key", order.IdempotencyKey, "this idempotency key had an order already, and this is its render")
	}
	return answer.GetGeneration(), maybe, err
}

// failureTimeout is after how long the server tells of an attempt that failed, while it goes on: see the contract's
// CreateGeneration.
const failureTimeout = 1500 * time.Millisecond

// create sends an order once.
func (s *session) create(ctx context.Context, order *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
	return s.generations.CreateGeneration(metadata.AppendToOutgoingContext(ctx, "easel-failure-timeout", failureTimeout.String()), order)
}

// unclear explains an order that ended without an answer: it may have been taken. Of one that was
// answered it gives nil.
func unclear(program, ctx context.Context, err error, key string) error {
	advice := mayBeOrdered(key)
	switch code := status.Code(err); {
	case program.Err() != nil && errors.Is(program.Err(), context.Canceled):
		return &Problem{Exit: ExitInterrupted, Text: "interrupted while ordering", Cure: advice, Err: err}
	case ctx.Err() != nil || code == codes.DeadlineExceeded:
		return &Problem{Exit: ExitRetry, Text: "the time ran out while ordering", Cure: advice, Err: err}
	case outcomeUnknown(err):
		return &Problem{Exit: ExitRetry, Text: messageOf(err), Cure: advice, Err: err}
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

// stay watches the generation to its end and downloads its result. What happens on the way is
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
	if c.Out == standardOutput {
		return c.paid(ctx, s, c.writeToStdout(ctx, s, g), g)
	}
	var path string
	var err error
	if g.GetText() != nil {
		var file saved
		file, err = writeText(c.Out, c.Force, g)
		path = file.Path
	} else {
		path, err = s.transfer(ctx, &transfer{id: g.GenerationId, out: c.Out, force: c.Force})
	}
	if err != nil {
		return c.paid(ctx, s, err, g)
	}
	s.printGeneration(g, path)
	if !s.quiet {
		s.Tell("written to " + path)
	}
	return nil
}

// writeToStdout writes the result to standard output, and nothing else.
func (c *generateCmd) writeToStdout(ctx context.Context, s *session, g *easelv1.Generation) error {
	if g.GetText() == nil {
		return s.transferToStdout(ctx, &transfer{id: g.GenerationId})
	}
	return s.writeTextToStdout(g)
}

// paid says how to get a result that has been ordered and did not arrive. Ordering again
// would be paid for again.
func (c *generateCmd) paid(ctx context.Context, s *session, err error, g *easelv1.Generation) error {
	if err == nil || c.Out == "" {
		return err
	}
	f := explain(ctx, err)
	if g.GetText() != nil {
		cure := "The order stands. Its text is shown by: " + s.commandLine("get", g.GenerationId)
		return &Problem{Exit: f.exit, Text: f.message, Cure: cure, Err: err, generationID: g.GenerationId}
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
	cure += " Fetch its result with: " + s.commandLine(words...)
	return &Problem{Exit: f.exit, Text: f.message, Cure: cure, Err: err, generationID: g.GenerationId}
}

// orderError is an error that ended an order, with what is known of the order, so that nobody wonders
// whether there is something to pay. No other advice is given with it than what can't lead to a
// second order.
type orderError struct {
	err   error
	known string
}

// Error is that of the error within.
func (u orderError) Error() string { return u.err.Error() }

// Unwrap gives the error within.
func (u orderError) Unwrap() error { return u.err }

const (
	// nothingOrdered is only certain of an idempotency key that this run has made up, and where the server's
	// ledger says so.
	nothingOrdered = "Nothing was ordered."
	nothingSent    = "Nothing was sent now. What was ordered under this --idempotency-key before stands."
)

// lookFirst is said of an order of unknown outcome that is not sent again.
const lookFirst = "The order may have been taken. Look at what the account has ordered and paid; do not order again before that."

// listFirst is said of orders that may exist where the API key was rejected.
const listFirst = "Under another API key it may be bought again: look for it with easel list first."

// mayBeOrdered says how to find out about an order that may exist.
func mayBeOrdered(key string) string {
	return "The order may have been taken. Send it again with --idempotency-key " + key + " and the same API key, within 12 hours: so it is not charged twice."
}

// notSent is an error that came before any order of this run was sent.
func (c *generateCmd) notSent(err error) error {
	if c.IdempotencyKey == "" {
		return orderError{err, nothingOrdered}
	}
	return orderError{err, nothingSent}
}

// refused is the answer to an order, with what it says of the order. maybe reports whether an
// earlier try of this run may have been taken.
func (c *generateCmd) refused(err error, key string, maybe bool) orderError {
	nothing := sentNothing(err)
	switch {
	case isNeverResent(err):
		return orderError{err, lookFirst}
	case orderOutcome(err) == "not_placed":
		return orderError{err, nothingOrdered}
	case maybe || !turnedAway(err) && !nothing:
		return orderError{err, mayBeOrdered(key)}
	case c.IdempotencyKey == "":
		return orderError{err, nothingOrdered}
	case nothing:
		return orderError{err, nothingSent}
	}
	return orderError{err, mayBeOrdered(key)}
}

// sentNothing reports whether the server says of a failed order that it has sent nothing to the
// catalog.
func sentNothing(err error) bool {
	outcome := orderOutcome(err)
	return outcome == "not_placed_by_this_call" || outcome == "not_placed"
}

// orderOutcome is what the server knows of a failed order, "" where it does not say.
func orderOutcome(err error) string {
	var f failure
	f.addDetails(status.Convert(err))
	return f.metadata["order_outcome"]
}

// turnedAway reports whether an order was refused, by the server or by the catalog. That is certain
// only of a key that was never used before: of any other an earlier try may have been taken, whatever
// is said of the next.
func turnedAway(err error) bool {
	s, ok := statusOf(err)
	if !ok {
		return false
	}
	var info *errdetails.ErrorInfo
	for _, detail := range s.Details() {
		if d, ok := detail.(*errdetails.ErrorInfo); ok {
			info = d
		}
	}
	switch reasonNamed(info.GetReason()) {
	case easelv1.ErrorReason_CREDENTIAL_MISSING, easelv1.ErrorReason_CREDENTIAL_MALFORMED, easelv1.ErrorReason_UPSTREAM_INVALID_INPUT,
		easelv1.ErrorReason_INSUFFICIENT_BALANCE, easelv1.ErrorReason_UPSTREAM_FORBIDDEN, easelv1.ErrorReason_MODEL_NOT_FOUND,
		easelv1.ErrorReason_API_KEY_DAILY_CAP, easelv1.ErrorReason_INPUTS_TOO_LARGE, easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED,
		easelv1.ErrorReason_UPSTREAM_RATE_LIMITED, easelv1.ErrorReason_OVERLOADED, easelv1.ErrorReason_INVALID_REQUEST,
		easelv1.ErrorReason_PRICE_ABOVE_LIMIT, easelv1.ErrorReason_BUDGET_EXCEEDED, easelv1.ErrorReason_MODEL_NOT_ALLOWED:
		return true
	}
	return false
}
