package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

const (
	placing     = 8 // orders on their way at once
	downloading = 4 // downloads at once
)

// batch is several orders of one run. Each goes its own way, from its order to its file;
// what one comes to never holds up another.
type batch struct {
	*session
	flags        *generateCmd
	key          string // each order's own key begins with it
	retryCommand string // the command that picks all of it up
	started      time.Time
	saving       chan struct{} // held by a download
	tasks        []*task
	done         atomic.Int64
	refused      atomic.Bool // one was, by what would meet every other too: no money, no valid key
}

// task is one order of a batch.
type task struct {
	orderLine
	orderResult
	sent bool
	err  error
}

// orderResult is what an order of a batch came to, as a line of JSON.
type orderResult struct {
	Order          int             `json:"order"`
	IdempotencyKey string          `json:"idempotencyKey"`
	OrderOutcome   string          `json:"orderOutcome"` // as the contract has it, or "placed"
	Generation     json.RawMessage `json:"generation,omitempty"`
	Path           string          `json:"path,omitempty"`
	Error          *failure        `json:"error,omitempty"`

	generation *easelv1.Generation // nil where no generation is known
	fate       string              // of such an order
}

// batchSum is what a batch came to that did not end well, as JSON has it.
type batchSum struct {
	Orders          int    `json:"orders"`
	Finished        int    `json:"finished"`
	FirstUnfinished int    `json:"firstUnfinished"`
	RetryCommand    string `json:"retryCommand,omitempty"` // absent where a person should look first
}

var errNotSent = errors.New("it was not sent, because another order was refused")

// runSeveral places several orders and stays with them where that is asked for.
func (c *generateCmd) runSeveral(ctx context.Context, p *Program, s *session) error {
	lines, err := c.lines(ctx, s)
	if err != nil {
		return c.notSent(err)
	}
	key := cmp.Or(c.IdempotencyKey, rand.Text())
	b := &batch{
		session: s, flags: c, key: key, retryCommand: p.retryCommand(c.IdempotencyKey == "", key),
		started: time.Now(), saving: make(chan struct{}, downloading),
	}
	for _, line := range lines {
		b.tasks = append(b.tasks, &task{orderLine: line, orderResult: orderResult{Order: line.number, IdempotencyKey: key + "-" + line.name}})
	}
	b.tellKeys()
	b.run(ctx)
	b.tellSum()
	return b.verdict(ctx)
}

// lines are the orders to place. Nothing has been ordered when it fails.
func (c *generateCmd) lines(ctx context.Context, s *session) ([]orderLine, error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	if c.FromStdin {
		model, err := c.model(ctx, s)
		if err != nil {
			return nil, err
		}
		return readOrders(s.stdin, model, c.Inputs)
	}
	inputs, err := c.text(ctx, s)
	if err != nil {
		return nil, err
	}
	lines := make([]orderLine, c.Count)
	for i := range lines {
		lines[i] = orderLine{number: i + 1, name: strconv.Itoa(i + 1), inputs: inputs}
	}
	return lines, nil
}

// run takes every order to its end. They leave in their order, a few at a time.
func (b *batch) run(ctx context.Context) {
	defer b.ticking(func() {
		b.ShowLive(fmt.Sprintf("%d of %d done  %s", b.done.Load(), len(b.tasks), formatDuration(time.Since(b.started))))
	})()
	var all sync.WaitGroup
	slots := make(chan struct{}, placing)
	for _, t := range b.tasks {
		slots <- struct{}{}
		all.Go(func() {
			t.err = b.order(ctx, t)
			<-slots
			if t.err == nil && (b.flags.Watch || b.flags.Out != "") {
				t.err = b.stay(ctx, t)
			}
			b.done.Add(1)
			b.tellResult(ctx, t)
		})
	}
	all.Wait()
}

// order sends an order until there is an answer that another try would not change.
func (b *batch) order(ctx context.Context, t *task) error {
	if ctx.Err() != nil || b.refused.Load() {
		t.fate, t.OrderOutcome = "not sent", "not_placed_by_this_call"
		return cmp.Or(ctx.Err(), errNotSent)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(b.flags.Timeout, orderLimit))
	defer cancel()
	t.sent = true
	g, maybe, err := b.place(ctx, b.flags.orderOf(t.inputs, t.IdempotencyKey))
	if t.generation, t.OrderOutcome = g, "placed"; err == nil {
		return nil
	}
	if e := baseOf(err); e != nil && slices.Contains([]int{ExitMoney, ExitCredential}, exitOf(e)) {
		b.refused.Store(true)
	}
	known := b.flags.refused(err, t.IdempotencyKey, maybe)
	switch {
	case known.known == nothingOrdered:
		t.fate, t.OrderOutcome = "not ordered", "not_placed"
	case turnedAway(err):
		t.fate, t.OrderOutcome = "refused now, may be ordered", "unknown"
	default:
		t.fate, t.OrderOutcome = "may be ordered", "unknown"
	}
	return known
}

// stay watches a generation to its end, and saves its result where that is asked for.
func (b *batch) stay(ctx context.Context, t *task) error {
	for render, err := range b.Watch(ctx, t.generation.GenerationId) {
		if err != nil {
			return err
		}
		t.generation = render.Raw
	}
	if err := verdict(t.generation); err != nil || b.flags.Out == "" {
		return err
	}
	select {
	case b.saving <- struct{}{}:
		defer func() { <-b.saving }()
	case <-ctx.Done():
		return ctx.Err()
	}
	file, err := b.result(ctx, t.generation, b.flags.Out, b.flags.Force)
	if there := (*Problem)(nil); errors.As(err, &there) && there.path != "" && b.isSaved(t.generation, there.path) {
		file.Path, err = there.path, nil // by an earlier run: files get their name when they are whole
	}
	t.Path = file.Path
	return err
}

// isSaved reports whether a file has the size of a result.
func (b *batch) isSaved(g *easelv1.Generation, path string) bool {
	info, err := os.Lstat(path)
	size := g.GetFile().GetSizeBytes()
	if g.GetText() != nil {
		size = int64(len(endedLine(g.GetText().Text)))
	}
	return err == nil && info.Mode().Type() == fs.FileMode(0) && info.Size() == size
}

// verdict is the end of the command: the first order that did not end well, and how to go on.
func (b *batch) verdict(ctx context.Context) error {
	well, first := 0, (*task)(nil)
	for _, t := range b.tasks {
		switch {
		case t.err == nil:
			well++
		case first == nil || errors.Is(first.err, errNotSent):
			first = t
		}
	}
	if first == nil {
		return nil
	}
	cure, again := b.goOn()
	p := &Problem{Cure: cure, batch: &batchSum{len(b.tasks), well, first.number, again}}
	if interrupted(ctx) {
		p.Exit, p.Text = ExitInterrupted, fmt.Sprintf("interrupted, %d of %d orders are finished", well, len(b.tasks))
		p.Cure = "The other renders that were ordered go on at the catalog, and stay paid. " + cure
		return p
	}
	cause := first.err
	if order := (orderError{}); errors.As(cause, &order) {
		cause = order.err // what is known of this one is not true of all
	}
	f := explain(ctx, cause)
	p.Exit, p.Text = f.ExitCode, fmt.Sprintf("%d of %d orders did not end well, the first: #%d", len(b.tasks)-well, len(b.tasks), first.number)
	switch {
	case f.ExitCode == ExitGenerationFailed: // the same key stands for the same failure
		p.Cure, p.batch.RetryCommand = "", ""
	case f.Code == "FAILED_PRECONDITION" || f.Code == "INVALID_ARGUMENT":
		p.Cure = f.Cure + " " + cure
	}
	return p
}

// goOn says how to go on with what is missing, or what to look at before: then there is no command.
func (b *batch) goOn() (cure, command string) {
	cure = "This goes on with what is missing; under the same API key, and within 12 hours, nothing is ordered or charged twice: " + b.retryCommand
	for _, t := range b.tasks {
		if isNeverResent(t.err) {
			return lookFirst, ""
		}
		if easel.ReasonOf(t.err) == "UPSTREAM_CREDENTIAL_REJECTED" {
			return listFirst + " " + cure, ""
		}
	}
	return cure, b.retryCommand
}

// tellKeys tells the idempotency keys before anything is sent.
func (b *batch) tellKeys() {
	first, last := b.tasks[0].IdempotencyKey, b.tasks[len(b.tasks)-1]
	if b.json {
		b.Tell(jsonLine(map[string]any{"idempotency_key": b.key, "orders": len(b.tasks), "first_idempotency_key": first, "last_idempotency_key": last.IdempotencyKey}))
		return
	}
	b.Hint(fmt.Sprintf("idempotency keys %s to -%s (after a crash, give %s to --idempotency-key)", first, last.name, b.key))
}

// tellResult prints what an order came to, when it comes to it.
func (b *batch) tellResult(ctx context.Context, t *task) {
	g := t.generation
	switch {
	case b.json:
		if g != nil {
			t.Generation = json.RawMessage(compactJSON(g))
		}
		if t.err != nil {
			t.Error = new(explain(ctx, t.err))
		}
		b.Print(jsonLine(t.orderResult))
	case g == nil:
		b.Tell(fmt.Sprintf("#%d  %s  %s", t.Order, b.ErrStyle.Paint(terminal.Red, t.fate), explain(ctx, t.err).line()))
	case !b.quiet:
		b.Print(b.resultLine(ctx, t))
		if g.GetText() != nil && t.Path == "" {
			b.PrintText("    " + strings.ReplaceAll(strings.TrimSuffix(terminal.SanitizeText(g.GetText().Text), "\n"), "\n", "\n    "))
		}
	case t.err == nil && t.Path == "" && g.GetText() != nil:
		b.PrintText(terminal.SanitizeText(g.GetText().Text))
	case t.err == nil:
		b.Print(cmp.Or(t.Path, terminal.OneLine(g.GenerationId)))
	}
}

func (b *batch) resultLine(ctx context.Context, t *task) string {
	g, result := t.generation, cmp.Or(t.Path, resultSummary(t.generation))
	if t.err != nil && (!g.Terminal || g.State == easelv1.State_STATE_SUCCEEDED) {
		result = b.OutStyle.Paint(terminal.Red, explain(ctx, t.err).line())
	}
	state := b.OutStyle.Paint(stateColour(g.State), fmt.Sprintf("%-9s", stateWord(g)))
	return fmt.Sprintf("#%d  %s  %s  %s", t.Order, terminal.OneLine(g.GenerationId), state, joinNonEmpty(costText(g), afterText(g), result))
}

// tellSum tells how many orders came to what, and what they cost together.
func (b *batch) tellSum() {
	states, cents := map[string]int{}, int64(0)
	for _, t := range b.tasks {
		word := t.fate
		if g := t.generation; g != nil {
			word = stateWord(g)
			if g.State != easelv1.State_STATE_REFUNDED {
				cents += g.GetCostCents()
			}
		}
		states[word]++
	}
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(states)) {
		parts = append(parts, fmt.Sprintf("%d %s", states[word], word))
	}
	if !b.json {
		b.aside(fmt.Sprintf("%d orders: %s; %s in %s", len(b.tasks), strings.Join(parts, ", "), Money(cents, ""), formatDuration(time.Since(b.started))))
	}
}
