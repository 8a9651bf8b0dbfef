package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// orderResult is what an order of a batch came to, as a line of JSON.
type orderResult struct {
	Order          int             `json:"order"`
	IdempotencyKey string          `json:"idempotencyKey"`
	OrderOutcome   string          `json:"orderOutcome"` // as the contract has it, or "placed"
	Generation     json.RawMessage `json:"generation,omitempty"`
	Path           string          `json:"path,omitempty"`
	Error          *failureBody    `json:"error,omitempty"`

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

// tellKeys tells the idempotency keys before anything is sent.
func (b *batch) tellKeys() {
	first, last := b.tasks[0].key, b.tasks[len(b.tasks)-1]
	if b.json {
		b.Tell(jsonLine(map[string]any{"idempotency_key": b.key, "orders": len(b.tasks), "first_idempotency_key": first, "last_idempotency_key": last.key}))
		return
	}
	b.Tell(b.ErrStyle.Paint(terminal.Dim, fmt.Sprintf("idempotency keys %s to -%s (after a crash, give %s to --idempotency-key)", first, last.name, b.key)))
}

// tellTrouble tells why an order has no answer yet, and when it is sent again. On a terminal its live line does.
func (b *batch) tellTrouble(ctx context.Context, t *task, err error, delay time.Duration) {
	why, again := troubleOf(err), false
	b.change(func() {
		again = t.why == why
		t.why, t.trouble = why, why+", again in "+formatDuration(delay)
	})
	switch {
	case again || b.quiet || b.ErrStyle.Terminal:
	case b.json:
		b.Tell(jsonLine(map[string]any{
			"order": t.number, "idempotency_key": t.key, "next_attempt_seconds": delay.Seconds(), "error": explain(ctx, err).body(),
		}))
	default:
		b.Tell(b.number(t.number) + "  no answer yet: " + t.trouble)
	}
}

// tellResult prints what an order came to, when it comes to it.
func (b *batch) tellResult(ctx context.Context, r orderResult, err error) {
	g := r.generation
	switch {
	case b.json:
		b.printResult(ctx, r, err)
	case g == nil:
		b.Tell(b.number(r.Order) + "  " + b.ErrStyle.Paint(terminal.Red, r.fate) + "  " + b.why(ctx, err))
	case b.quiet && err == nil:
		b.PrintText(r.brief())
	case b.quiet:
	default:
		b.Print(b.resultLine(ctx, r, err))
		if g.GetText() != nil && r.Path == "" {
			b.PrintText(indented(terminal.SanitizeText(g.GetText().Text)))
		}
	}
}

// brief is all that a script wants of an order that ended well.
func (r orderResult) brief() string {
	switch {
	case r.Path != "":
		return r.Path
	case r.generation.GetText() != nil:
		return terminal.SanitizeText(r.generation.GetText().Text)
	}
	return terminal.OneLine(r.generation.GenerationId)
}

func (b *batch) printResult(ctx context.Context, r orderResult, err error) {
	if r.generation != nil {
		r.Generation = json.RawMessage(compactJSON(r.generation))
	}
	if err != nil {
		body := explain(ctx, err).body()
		r.Error = &body
	}
	b.Print(jsonLine(r))
}

// why is what went wrong, in words for a line among others.
func (b *batch) why(ctx context.Context, err error) string {
	if interrupted(ctx) {
		return "interrupted"
	}
	return explain(ctx, err).line()
}

func (b *batch) resultLine(ctx context.Context, r orderResult, err error) string {
	g := r.generation
	after, result := "", resultSummary(g)
	if g.Terminal {
		after = afterText(g)
	}
	switch {
	case r.Path != "":
		result = r.Path
	case err != nil && (!g.Terminal || g.State == easelv1.State_STATE_SUCCEEDED):
		result = b.OutStyle.Paint(terminal.Red, b.why(ctx, err))
	}
	state := b.OutStyle.Paint(stateColour(g.State), fmt.Sprintf("%-9s", stateWord(g)))
	return b.number(r.Order) + "  " + terminal.OneLine(g.GenerationId) + "  " + state + "  " + joinNonEmpty(costText(g), after, result)
}

// number is how an order is called, as wide as the last one's.
func (b *batch) number(n int) string {
	width := len(fmt.Sprint(b.tasks[len(b.tasks)-1].number)) + 1
	return fmt.Sprintf("%-*s", width, fmt.Sprintf("#%d", n))
}

// tellSum tells how many orders came to what, and what they cost together.
func (b *batch) tellSum() {
	if b.quiet || b.json {
		return
	}
	states, cents := map[string]int{}, int64(0)
	for _, t := range b.tasks {
		word := t.result.fate
		if g := t.result.generation; g != nil {
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
	b.Tell(b.ErrStyle.Paint(terminal.Dim, fmt.Sprintf("%d orders: %s; %s in %s",
		len(b.tasks), strings.Join(parts, ", "), Money(cents, ""), formatDuration(time.Since(b.started)))))
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ")
}

// redraw draws a line for each order that is under way, and one for all.
func (b *batch) redraw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frame++
	_, height := b.Size()
	var lines []string
	done, hidden := 0, 0
	for _, t := range b.tasks {
		switch {
		case t.phase == phaseDone:
			done++
		case t.phase == phaseWaiting:
		case len(lines) >= min(height-3, 12):
			hidden++
		default:
			lines = append(lines, b.row(t))
		}
	}
	sum := fmt.Sprintf("%d of %d done", done, len(b.tasks))
	if hidden > 0 {
		sum += fmt.Sprintf(", %d more under way", hidden)
	}
	b.ShowLines(append(lines, sum+"  "+b.ErrStyle.Paint(terminal.Dim, formatDuration(time.Since(b.started)))))
}

// row is the live line of one order.
func (b *batch) row(t *task) string {
	head := b.ErrStyle.Paint(terminal.Dim, b.number(t.number)) + " "
	spinner := b.ErrStyle.Paint(terminal.Blue, b.ErrStyle.Spinner(b.frame)) + " "
	switch {
	case t.phase == phaseWatching:
		return head + t.view.drawn()
	case t.phase == phaseSaving:
		return head + spinner + t.transfer.progress.line(b.ErrStyle, b.BarWidth(), time.Since(t.since))
	case t.trouble != "":
		return head + spinner + b.ErrStyle.Paint(terminal.Yellow, "ordering") + " " + t.trouble
	}
	return head + spinner + "ordering"
}
