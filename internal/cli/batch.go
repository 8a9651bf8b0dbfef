package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
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

	mu      sync.Mutex
	tasks   []*task
	refused error // what would meet every other order too: no money, no valid key
	frame   int
}

// task is one order of a batch.
type task struct {
	orderLine
	key string

	// Of the goroutine that sends it:
	sent  bool // it was sent
	maybe bool // a try before the last may have been taken

	// What follows is guarded by the mutex of the batch.
	phase    phase
	why      string // why there is no answer yet, for a line that tells it once
	trouble  string // likewise, and when the order is sent again
	view     *watchView
	transfer *transfer
	since    time.Time // when the download began
	result   orderResult
	err      error
}

// phase is how far an order is.
type phase int

const (
	phaseWaiting phase = iota
	phaseOrdering
	phaseWatching
	phaseSaving
	phaseDone
)

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
		b.tasks = append(b.tasks, &task{orderLine: line, key: key + "-" + line.name})
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
	defer b.ticking(b.redraw)()
	var all sync.WaitGroup
	slots := make(chan struct{}, placing)
	for _, t := range b.tasks {
		slots <- struct{}{}
		all.Go(func() {
			g, err := b.place(ctx, t)
			<-slots
			b.finish(ctx, t, g, err)
		})
	}
	all.Wait()
}

// place sends an order until there is an answer that another try would not change.
func (b *batch) place(ctx context.Context, t *task) (*easelv1.Generation, error) {
	if err := b.mayOrder(ctx, t); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(b.flags.Timeout, orderLimit))
	defer cancel()
	answer, err := retry(ctx, outcomeUnknown, func(err error, delay time.Duration) {
		t.maybe = t.maybe || !sentNothing(err)
		b.tellTrouble(ctx, t, err, delay)
	}, func() (*easelv1.CreateGenerationResponse, error) {
		t.sent = true
		return b.create(ctx, &easelv1.CreateGenerationRequest{
			ModelId: b.flags.Model, InputsJson: t.inputs, IdempotencyKey: t.key, MaxCostCents: b.flags.MaxCost.Cents, Labels: b.flags.Label.values(),
		})
	})
	b.change(func() {
		t.trouble = ""
		if meetsAll(err) && b.refused == nil {
			b.refused = err
		}
	})
	return answer.GetGeneration(), err
}

// mayOrder begins an order, unless it is clear that it would be refused or nobody waits.
func (b *batch) mayOrder(ctx context.Context, t *task) (err error) {
	b.change(func() {
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case b.refused != nil:
			err = errNotSent
		default:
			t.phase = phaseOrdering
		}
	})
	return err
}

// meetsAll reports whether the next order would be refused in the same way.
func meetsAll(err error) bool {
	if err == nil {
		return false
	}
	exit := exitOf(status.Code(err), detailsOf(err).reason)
	return exit == ExitMoney || exit == ExitCredential
}

// finish stays with an order that was taken, and tells what it came to.
func (b *batch) finish(ctx context.Context, t *task, g *easelv1.Generation, err error) {
	r := orderResult{Order: t.number, IdempotencyKey: t.key, OrderOutcome: "placed", generation: g}
	if g == nil {
		r.fate, r.OrderOutcome = b.fate(t, err)
		if t.sent && refusal(err) {
			err = b.flags.refused(err, t.key, t.maybe)
		}
	}
	if err == nil && (b.flags.Watch || b.flags.Out != "") {
		r.generation, err = b.stay(ctx, t, g)
		if err == nil && b.flags.Out != "" {
			r.Path, err = b.save(ctx, t, r.generation)
		}
	}
	b.change(func() { t.phase, t.result, t.err = phaseDone, r, err })
	b.tellResult(ctx, r, err)
}

// fate says in two or three words what has become of an order of which no generation is known, and in the
// contract's word.
func (b *batch) fate(t *task, err error) (words, outcome string) {
	switch {
	case !t.sent:
		return "not sent", "not_placed_by_this_call"
	case b.flags.refused(err, t.key, t.maybe).known == nothingOrdered:
		return "not ordered", "not_placed"
	case refusal(err):
		return "refused now, may be ordered", "unknown"
	}
	return "may be ordered", "unknown"
}

// refusal reports whether an error is the answer to an order, and no other try would change it.
func refusal(err error) bool {
	_, ok := statusOf(err)
	code := status.Code(err)
	return ok && !outcomeUnknown(err) && !isNeverResent(err) && code != codes.Canceled && code != codes.DeadlineExceeded && code != codes.Unknown
}

// stay watches one generation to its end. Its remarks are for the live lines alone.
func (b *batch) stay(ctx context.Context, t *task, g *easelv1.Generation) (*easelv1.Generation, error) {
	f := b.follow([]string{g.GenerationId}, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	view := newWatchView(b.silent(), b.ErrStyle, func(string) {})
	view.generations[g.GenerationId] = g
	f.seen, f.lost = view.seen, view.lost
	b.change(func() { t.phase, t.view = phaseWatching, view })
	err := f.run(ctx)
	if last := f.last(g.GenerationId); last != nil {
		g = last
	}
	if err == nil {
		err = verdict(g)
	}
	return g, err
}

// silent is the session without what it says on the way.
func (b *batch) silent() *session {
	silent := *b.session
	silent.quiet, silent.json = true, false
	return &silent
}

// save puts a result into the directory. A file that is there and has the size of the
// result is the one of an earlier run: files get their name when they are whole.
func (b *batch) save(ctx context.Context, t *task, g *easelv1.Generation) (string, error) {
	if g.GetText() != nil {
		return b.saveText(g)
	}
	select {
	case b.saving <- struct{}{}:
		defer func() { <-b.saving }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	d := &transfer{id: g.GenerationId, out: b.flags.Out, force: b.flags.Force, silent: true}
	b.change(func() { t.phase, t.transfer, t.since = phaseSaving, d, time.Now() })
	path, err := b.silent().transfer(ctx, d)
	if err != nil && d.isSaved() {
		return d.target, nil
	}
	return path, err
}

// saveText writes a text, unless it is there already.
func (b *batch) saveText(g *easelv1.Generation) (string, error) {
	path, err := textPath(b.flags.Out, g)
	if err != nil {
		return "", err
	}
	held, err := os.ReadFile(path) //nolint:gosec // a name of our own, in the directory that the user names
	if err == nil && string(held) == endedLine(g.GetText().Text) {
		return path, nil
	}
	file, err := writeText(path, b.flags.Force, g)
	return file.Path, err
}

// change changes what the batch knows.
func (b *batch) change(what func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	what()
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
	cure := b.goOn()
	if interrupted(ctx) {
		return &Problem{
			Exit: ExitInterrupted, Text: fmt.Sprintf("interrupted, %d of %d orders are finished", well, len(b.tasks)),
			Cure:  "The other renders that were ordered go on at the catalog, and stay paid. " + cure,
			batch: &batchSum{Orders: len(b.tasks), Finished: well, FirstUnfinished: first.number, RetryCommand: b.safeRetry()},
		}
	}
	cause := first.err
	if order := (orderError{}); errors.As(cause, &order) {
		cause = order.err // what is known of this one is not true of all
	}
	f := explain(ctx, cause)
	text := fmt.Sprintf("%d of %d orders did not end well, the first: #%d", len(b.tasks)-well, len(b.tasks), first.number)
	sum := &batchSum{Orders: len(b.tasks), Finished: well, FirstUnfinished: first.number}
	if f.exit == ExitGenerationFailed { // the same key stands for the same failure
		return &Problem{Exit: f.exit, Text: text, Cure: "", batch: sum}
	}
	sum.RetryCommand = b.safeRetry()
	if c := status.Code(cause); c == codes.FailedPrecondition || c == codes.InvalidArgument {
		cure = f.cure + " " + cure
	}
	return &Problem{Exit: f.exit, Text: text, Cure: cure, batch: sum}
}

// safeRetry is the command that goes on, "" where a person should look first.
func (b *batch) safeRetry() string {
	for _, t := range b.tasks {
		if isNeverResent(t.err) || status.Code(t.err) == codes.Unauthenticated {
			return ""
		}
	}
	return b.retryCommand
}

// goOn says how to go on with what is missing, or what to look at before.
func (b *batch) goOn() string {
	cure := "This goes on with what is missing; under the same API key, and within 12 hours, nothing is ordered or charged twice: " + b.retryCommand
	for _, t := range b.tasks {
		if isNeverResent(t.err) {
			return lookFirst
		}
		if status.Code(t.err) == codes.Unauthenticated {
			return listFirst + " " + cure
		}
	}
	return cure
}
