package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type generateCmd struct {
	callFlags
	inputFlags
	IdempotencyKey string            `placeholder:"KEY" help:"Key that identifies this order. To continue after a crash, send the order again with the same key: within 12 hours and under the same API key, it is not charged twice. Default: a new key, which is printed before the order is sent."`
	MaxCost        Amount            `placeholder:"AMOUNT" help:"Maximum price: 0.50 (euros) or 50c (cents)."`
	Expire         expiry            `placeholder:"TIME" help:"Deadline for sending the order to the catalog: a duration such as 10m, or a time (RFC 3339). An order that has not been sent by then is not placed."`
	Label          map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"Label of the order, for lists and reports. Labels are never sent to the catalog. Repeat the flag for several labels."`
	Watch          bool              `help:"Wait until the render is finished, and print each state change."`
	Out            string            `placeholder:"FILE|DIR|-" help:"File or directory for the finished result; - is standard output. Implies --watch."`
	Force          bool              `help:"Let --out overwrite an existing file."`
}

// expiry is the value of --expire: the time after which the order is not sent to the catalog.
type expiry struct{ time.Time }

// Decode parses either a duration from now or an RFC 3339 time. The resulting time must be in the future. Decode scans the
// argument itself, so that it can report that a duration must be positive. The parser would treat a negative duration as a
// flag.
func (e *expiry) Decode(line *kong.DecodeContext) (err error) {
	token := line.Scan.Pop()
	if token.IsEOL() {
		return errors.New("needs a value")
	}
	text := token.String()
	if d, failed := time.ParseDuration(text); failed == nil {
		e.Time = time.Now().Add(d)
	} else {
		e.Time, err = time.Parse(time.RFC3339, text)
	}
	if err != nil || !e.After(time.Now()) {
		return fmt.Errorf("%q must be a positive duration such as 10m or 2h30m, or a future time such as 2027-01-31T12:00:00Z", text)
	}
	return nil
}

// Faults returns a message for each invalid flag or combination of flags.
func (c *generateCmd) Faults() []string { return c.faultsOfOut(c.Out) }

// Run orders a render, and watches it if --watch or --out is set.
func (c *generateCmd) Run(ctx context.Context, s *session) error {
	g, err := c.placeOrder(ctx, s)
	if err != nil {
		return err
	}
	if c.Watch || c.Out != "" {
		return c.followRender(ctx, s, g)
	}
	s.printGeneration(g, terminal.OneLine(g.GenerationId))
	switch {
	case s.json:
	case !g.Terminal:
		s.printRemark(terminal.OneLine("continue with: " + s.commandLine("watch", g.GenerationId)))
	case g.GetFile() != nil:
		s.printRemark(terminal.OneLine("continue with: " + s.commandLine("download", g.GenerationId)))
	}
	return nil
}

// waitingAfter is the time after which the command prints that the server has not responded to the order yet.
const waitingAfter = 5 * time.Second

// placeOrder places the order. If it generates the idempotency key, it prints the key before it sends the order.
func (c *generateCmd) placeOrder(ctx context.Context, s *session) (*easelv1.Generation, error) {
	inputs, err := c.prepareInputs(ctx, s)
	if err != nil {
		return nil, c.withAdvice(err, "", easel.OutcomeNotPlacedByThisCall)
	}
	key := c.IdempotencyKey
	if key == "" {
		key = rand.Text()
		s.writeRemark("idempotency_key", key, "idempotency key "+key+" (after a crash, pass it as --idempotency-key)")
	}
	defer time.AfterFunc(waitingAfter, func() { s.printRemark("no response to the order yet; waiting") }).Stop()
	order := easel.Order{Model: c.Model, InputsJSON: inputs, Key: key, MaxCostCents: c.MaxCost.Cents, Expire: c.Expire.Time, Labels: c.Label}
	placed, err := s.Order(ctx, order, easel.Timeout(cmp.Or(c.Timeout, orderLimit)))
	if err != nil {
		outcome := easel.OutcomeUnknown
		if e := baseOf(err); e != nil {
			outcome = e.OrderOutcome
		}
		return nil, c.withAdvice(err, key, outcome)
	}
	s.recordResponse()
	if placed.Replayed && c.IdempotencyKey != "" {
		s.writeRemark("idempotency_key", key, "an order with this idempotency key already exists; this is its render")
	}
	return placed.Raw, nil
}

// prepareInputs returns the order's inputs as JSON. It returns an error if a result can't be written to --out.
func (c *generateCmd) prepareInputs(ctx context.Context, s *session) (inputs string, err error) {
	if c.Out != "" && c.Out != standardOutput {
		if err := checkWritable(c.Out, c.Force); err != nil {
			return "", err
		}
	}
	return c.inputsJSON(ctx, s)
}

const (
	nothingOrdered = "Nothing was ordered."
	nothingSent    = "Nothing was sent now. An earlier order under this --idempotency-key may exist."
)

// expiredUnderKey returns the hint for an order that this call did not place because the order had expired. An earlier call with
// the same key may have placed it.
func expiredUnderKey(key string) string {
	return nothingSent + " Run the command again with --idempotency-key " + terminal.ShellQuote(key) + " and a later --expire."
}

// neverResent returns the hint for an order that may exist and that Easel will not send again.
func neverResent(key string) string {
	return "The order with the idempotency key " + terminal.ShellQuote(key) + " may exist and may be charged. An operator can find it with 'easel orders list --unknown', and settle it with 'easel orders resolve'. Do not order again under a different key."
}

// mayBeOrdered returns the hint for an order that may exist.
func mayBeOrdered(key string) string {
	return "The order may exist. Send it again with --idempotency-key " + terminal.ShellQuote(key) + " and the same API key, within 12 hours, so that it is not charged twice."
}

// withAdvice returns the error of a failed order with a hint about the order's outcome. If an order may exist, it drops the
// error's own hint, because a user who follows that hint could place a second order.
func (c *generateCmd) withAdvice(err error, key string, outcome easel.Outcome) error {
	unknown := (*easel.OutcomeUnknownError)(nil)
	isExpired := errors.As(err, new(*easel.OrderExpiredError))
	switch {
	case outcome == easel.OutcomeNotPlaced, outcome == easel.OutcomeNotPlacedByThisCall && c.IdempotencyKey == "":
		return &Problem{Err: err, Cure: nothingOrdered, keepCure: true}
	case outcome == easel.OutcomeNotPlacedByThisCall && isExpired:
		return &Problem{Err: err, Cure: expiredUnderKey(key)}
	case outcome == easel.OutcomeNotPlacedByThisCall:
		return &Problem{Err: err, Cure: nothingSent}
	case errors.As(err, &unknown) && unknown.RetryAfter == 0, isExpired:
		return &Problem{Err: err, Cure: neverResent(key)}
	}
	return &Problem{Err: err, Cure: mayBeOrdered(key)}
}

// followRender watches the render until it is finished, and then prints its result or writes it to --out. It prints the state
// changes to standard error, so that standard output contains only the result. With --quiet or -o json, it does not print them.
func (c *generateCmd) followRender(ctx context.Context, s *session, g *easelv1.Generation) error {
	v := newWatchView(s, s.ErrStyle, s.Note)
	if s.json || s.quiet {
		v.tell = func(string) {}
	}
	err := v.printStates(s.Watch(ctx, g.GenerationId))
	last := cmp.Or(v.generations[g.GenerationId], g)
	if err != nil {
		err = c.withDownloadHint(s, s.reportStillGoing(ctx, err, s.commandLine("watch", g.GenerationId), g.GenerationId), last)
	} else if err = verdict(last); err == nil {
		err = c.deliverResult(ctx, s, last)
	}
	if err != nil && s.json {
		s.printJSON(last) // programs that read the output need the render's last state
	}
	return err
}

// deliverResult writes the result to --out, or prints it if --out is not set.
func (c *generateCmd) deliverResult(ctx context.Context, s *session, g *easelv1.Generation) error {
	brief := terminal.OneLine(g.GenerationId)
	if g.GetText() != nil {
		brief = terminal.SanitizeText(g.GetText().Text)
	}
	if c.Out == "" {
		s.printGeneration(g, brief)
		return nil
	}
	file, err := s.writeResult(ctx, g, c.Out, c.Force)
	if err != nil || c.Out == standardOutput {
		return c.withDownloadHint(s, err, g)
	}
	s.printGeneration(g, file.Path)
	if !s.quiet {
		s.Note("written to " + file.Path)
	}
	return nil
}

// withDownloadHint adds a hint to an error that occurred after the order was placed. The hint is the command that downloads the
// result, because a new order would cost money again. If --out is not set, withDownloadHint returns err unchanged.
func (c *generateCmd) withDownloadHint(s *session, err error, g *easelv1.Generation) error {
	if err == nil || c.Out == "" {
		return err
	}
	words, advice := []string{"download", g.GenerationId}, "The order was placed and paid. Fetch its result with: "
	if !g.Terminal {
		words, advice = append(words, "--wait", "10m"), "The render continues at the catalog, and is still charged. Fetch its result with: "
	}
	words = append(words, "--out", c.Out)
	if c.Force {
		words = append(words, "--force")
	}
	return &Problem{Err: err, Cure: advice + s.commandLine(words...), generationID: g.GenerationId}
}
