package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"image"
	_ "image/jpeg" // so that a JPEG is a picture too
	_ "image/png"
	"os"
	"strings"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// Demo is the client's side of the demonstration: one of everything, from the quote to the file.
type Demo struct {
	Addr   string // of the facade
	Key    string // the API key
	Prompt string // what to paint
	Out    string // where the picture goes
}

// Run connects to the real port and goes through all steps.
func (d Demo) Run(ctx context.Context, p *Program) error {
	t := &demo{
		session: &session{Console: p.Console(), message: func(easel.Message) {}},
		prompt:  d.Prompt, out: d.Out, started: time.Now(),
	}
	if err := t.connectWith(ctx, p, connection{Addr: d.Addr}, d.Key); err != nil {
		return err
	}
	defer func() { _ = t.Close() }() // nothing runs on it any more
	t.Print("Easel demo: a catalog with play money, the facade in front of it, and one client.")
	t.PrintText("It all runs on this machine; the client calls " + d.Addr + ".\n")
	if err := t.run(ctx); err != nil {
		return err
	}
	t.PrintText("\nEverything is as it should be, after " + formatDuration(time.Since(t.started)) + ".")
	t.Print("Next: " + p.Self() + " dev keeps it running and says how to call it.")
	return t.Err()
}

// demo goes through the steps of the demonstration. Every step checks what it is told.
type demo struct {
	*session
	prompt  string
	out     string
	started time.Time

	step   int
	before int64   // balance at the start
	costs  []int64 // what each order has charged
}

const (
	pictureModel = "studio/landscape"
	textModel    = "studio/haiku"
	demoMaxCost  = int64(50)
)

// run goes through the steps; the first that fails ends it.
func (t *demo) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		t.account, t.catalog, t.picture, t.text, t.balance,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// say prints a line below a heading; the heading stands beside the first line.
func (t *demo) say(heading, text string) {
	number := ""
	if heading != "" {
		t.step++
		number = fmt.Sprint(t.step)
	}
	t.Print(strings.TrimRight(fmt.Sprintf("%2s  %s  %s", number,
		t.OutStyle.Paint(terminal.Bold, fmt.Sprintf("%-8s", heading)), text), " "))
}

// mismatch is the error of a step that got something else than it should.
func mismatch(format string, args ...any) error {
	return &Problem{Exit: ExitFailure, Text: "the demo found a mismatch: " + fmt.Sprintf(format, args...)}
}

func (t *demo) readBalance(ctx context.Context) (int64, error) {
	answer, err := t.Accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
	if err != nil {
		return 0, err
	}
	if answer.Account.BalanceCents == nil {
		return 0, mismatch("the account has no balance")
	}
	return answer.Account.GetBalanceCents(), nil
}

func (t *demo) account(ctx context.Context) (err error) {
	if t.before, err = t.readBalance(ctx); err == nil {
		t.say("Account", "balance "+Money(t.before, ""))
	}
	return err
}

func (t *demo) catalog(ctx context.Context) error {
	all, err := t.allModels(ctx)
	if err != nil {
		return err
	}
	heading := "Models"
	for _, m := range all.Models {
		t.say(heading, fmt.Sprintf("%-17s  %s  %s", terminal.OneLine(m.ModelId), outputWord(m.OutputKind),
			t.OutStyle.Paint(terminal.Dim, terminal.OneLine(m.Description))))
		heading = ""
	}
	if heading != "" {
		return mismatch("the catalog lists no model")
	}
	return nil
}

// picture prices, orders, watches and downloads a picture.
func (t *demo) picture(ctx context.Context) error {
	inputs := `{"prompt":` + jsonString(t.prompt) + `,"size":"1600x1000","steps":30}`
	quote, err := t.Generations.QuoteGeneration(ctx, &easelv1.QuoteGenerationRequest{ModelId: pictureModel, InputsJson: inputs})
	if err != nil {
		return err
	}
	price := quote.Quote.PriceCents
	t.say("Quote", fmt.Sprintf("%s costs %s for these inputs:", pictureModel, Money(price, quote.Quote.CurrencyCode)))
	t.say("", t.OutStyle.Paint(terminal.Dim, inputs))
	g, err := t.order(ctx, "Order", pictureModel, inputs, price)
	if err != nil {
		return err
	}
	if g, err = t.watch(ctx, g); err != nil {
		return err
	}
	return t.download(ctx, g)
}

// order orders once and sends the same order again, which must change nothing.
func (t *demo) order(ctx context.Context, heading, model, inputs string, price int64) (*easelv1.Generation, error) {
	order := easel.Order{Model: model, InputsJSON: inputs, Key: rand.Text(), MaxCostCents: easel.Cents(demoMaxCost)}
	g, _, err := t.place(ctx, order)
	if err != nil {
		return nil, err
	}
	again, err := t.Order(ctx, order)
	switch {
	case err != nil:
		return nil, err
	case again.GenerationID != g.GenerationId:
		return nil, mismatch("the same order became two renders, %s and %s", g.GenerationId, again.GenerationID)
	case g.CostCents == nil || g.GetCostCents() != price:
		return nil, mismatch("the order was quoted at %s and charged %s", Money(price, ""), Money(g.GetCostCents(), ""))
	}
	t.costs = append(t.costs, g.GetCostCents())
	t.say(heading, fmt.Sprintf("%s, charged %s (limit %s)", g.GenerationId, Money(g.GetCostCents(), ""), Money(demoMaxCost, "")))
	t.say("", t.OutStyle.Paint(terminal.Dim, "sent twice with one idempotency key: one render, one charge"))
	return g, nil
}

// watch tells each state as it comes, with a live line on a terminal.
func (t *demo) watch(ctx context.Context, g *easelv1.Generation) (*easelv1.Generation, error) {
	v, heading := newWatchView(t.session, t.OutStyle, nil), "Watch"
	v.tell = func(string) {
		newest := v.generations[g.GenerationId]
		t.say(heading, fmt.Sprintf("%5s  %s", formatDuration(time.Since(v.started)), t.OutStyle.Paint(stateColour(newest.State), stateWord(newest))))
		heading = ""
	}
	if err := v.follow(t.Watch(ctx, g.GenerationId, easel.UntilSettled()), g.GenerationId); err != nil {
		return nil, err
	}
	last := v.generations[g.GenerationId]
	return last, verdict(last)
}

func (t *demo) download(ctx context.Context, g *easelv1.Generation) error {
	result, err := t.session.download(ctx, g.GenerationId, t.out, easel.FetchOptions{})
	if err != nil {
		return err
	}
	file, err := os.Open(result.Path) //nolint:gosec // it has just been written
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	picture, format, err := image.DecodeConfig(file)
	if err != nil {
		return mismatch("%s is no picture: %v", result.Path, err)
	}
	t.say("Download", t.OutStyle.Paint(terminal.Bold, result.Path))
	t.say("", fmt.Sprintf("%s, %dx%d, %s", format, picture.Width, picture.Height, formatBytes(result.SizeBytes)))
	t.say("", t.OutStyle.Paint(terminal.Dim, "sha256 "+result.SHA256+", as the server says"))
	return nil
}

// text orders from a text model; the answer comes with the last state.
func (t *demo) text(ctx context.Context) error {
	inputs := `{"prompt":` + jsonString(t.prompt) + `}`
	quote, err := t.Generations.QuoteGeneration(ctx, &easelv1.QuoteGenerationRequest{ModelId: textModel, InputsJson: inputs})
	if err != nil {
		return err
	}
	g, err := t.order(ctx, "Text", textModel, inputs, quote.Quote.PriceCents)
	if err != nil {
		return err
	}
	waited, err := t.Generations.WaitGeneration(ctx, &easelv1.WaitGenerationRequest{GenerationId: g.GenerationId})
	if err != nil {
		return err
	}
	if err := verdict(waited.Generation); err != nil {
		return err
	}
	if waited.Generation.GetText() == nil {
		return mismatch("%s ended as %s without a text", g.GenerationId, stateWord(waited.Generation))
	}
	for _, line := range textLines(terminal.SanitizeText(waited.Generation.GetText().Text)) {
		t.say("", "  "+line)
	}
	return nil
}

func textLines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// balance does the sum: what was there, less what was charged, is what is left.
func (t *demo) balance(ctx context.Context) error {
	after, err := t.readBalance(ctx)
	if err != nil {
		return err
	}
	sum, left := Money(t.before, ""), t.before
	for _, cost := range t.costs {
		sum += " - " + Money(cost, "")
		left -= cost
	}
	if left != after {
		return mismatch("%s should leave %s, and the account says %s", sum, Money(left, ""), Money(after, ""))
	}
	t.say("Balance", sum+" = "+t.OutStyle.Paint(terminal.Bold, Money(after, "")))
	return nil
}
