package cli

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// watchView prints a watch: a line for each change and, on a terminal, a live line with the elapsed and the estimated
// remaining time.
type watchView struct {
	*session
	tell    func(string)   // prints a state
	look    terminal.Style // style of the output stream
	started time.Time
	raw     bool // whether each message is printed as JSON

	mu          sync.Mutex
	generations map[string]*easelv1.Generation
	condition   easelv1.UpstreamCondition
	end         time.Time // estimated end, zero if unknown
	frame       int
}

func newWatchView(s *session, look terminal.Style, tell func(string)) *watchView {
	return &watchView{session: s, tell: tell, look: look, started: time.Now(), generations: map[string]*easelv1.Generation{}}
}

// follow prints a watch until its end.
func (v *watchView) follow(renders iter.Seq2[*easel.Render, error]) error {
	v.message = v.received
	defer v.ticking(v.redraw)()
	for render, err := range renders {
		if err != nil {
			return err
		}
		g := render.Raw
		v.mu.Lock()
		v.generations[g.GenerationId] = g
		v.mu.Unlock()
		switch {
		case v.raw:
		case !v.quiet:
			v.tell(v.stateLine(g))
		case g.Terminal:
			v.tell(terminal.OneLine(g.GenerationId) + " " + stateWord(g))
		}
	}
	return nil
}

// received prints a message as JSON, and applies messages other than states.
func (v *watchView) received(m easel.Message) {
	if v.raw {
		v.tell(compactJSON(m))
	}
	if m.GetHeartbeat() != nil {
		v.applyHeartbeat(m.GetHeartbeat())
	}
	if many, ok := m.(*easelv1.WatchGenerationsResponse); ok && many.GetCaughtUp() != nil {
		v.aside(fmt.Sprintf("watching %d renders; each change is printed, and new renders are", many.GetCaughtUp().GenerationCount))
	}
}

// worst returns the first error of all generations.
func (v *watchView) worst() error {
	for _, id := range slices.Sorted(maps.Keys(v.generations)) {
		if err := verdict(v.generations[id]); err != nil {
			return err
		}
	}
	return nil
}

func (v *watchView) stateLine(g *easelv1.Generation) string {
	clock := time.Now().Format(time.RFC3339) // a log needs the date
	if v.look.Terminal {
		clock = v.look.Paint(terminal.Dim, time.Now().Format(time.TimeOnly))
	}
	state := v.look.Paint(stateColour(g.State), fmt.Sprintf("%-9s", stateWord(g)))
	facts := joinNonEmpty(terminal.OneLine(g.ModelId), costText(g), v.look.Paint(terminal.Yellow, ageText(g, time.Now())))
	if g.Terminal {
		facts = joinNonEmpty(afterText(g), resultSummary(g))
	}
	return strings.TrimRight(clock+"  "+terminal.OneLine(g.GenerationId)+"  "+state+"  "+facts, " ")
}

var conditions = map[easelv1.UpstreamCondition]string{
	easelv1.UpstreamCondition_UPSTREAM_CONDITION_THROTTLED:           "the catalog asked to slow down; the watch continues",
	easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE:         "the catalog does not answer; the watch continues",
	easelv1.UpstreamCondition_UPSTREAM_CONDITION_CREDENTIAL_REJECTED: "the catalog rejects the server's key, its operator must act; the watch continues",
}

// applyHeartbeat records the estimate in a heartbeat, and prints a change of the catalog's condition.
func (v *watchView) applyHeartbeat(h *easelv1.Heartbeat) {
	v.mu.Lock()
	if v.end = (time.Time{}); h.TypicalRemaining != nil {
		v.end = time.Now().Add(h.TypicalRemaining.AsDuration())
	}
	before := v.condition
	v.condition = max(h.UpstreamCondition, easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY)
	changed := v.condition != max(before, easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY)
	v.mu.Unlock()
	if !changed {
		return
	}
	text := cmp.Or(conditions[h.UpstreamCondition], "the catalog answers")
	if h.LastError != "" {
		text += " (" + terminal.OneLine(h.LastError) + ")"
	}
	v.aside(text)
}

// redraw draws the next frame of the live line.
func (v *watchView) redraw() {
	v.mu.Lock()
	v.frame++
	line := v.liveLine(time.Now())
	v.mu.Unlock()
	v.ShowLive(line)
}

func (v *watchView) liveLine(now time.Time) string {
	look := v.ErrStyle
	lost, _ := v.lost.Load().(string)
	line := look.Paint(terminal.Blue, look.Spinner(v.frame)) + " " + v.progress(now)
	switch {
	case lost != "":
		line += look.Paint(terminal.Yellow, "  connecting")
	case v.condition > easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY:
		word := strings.ReplaceAll(strings.TrimPrefix(v.condition.String(), "UPSTREAM_CONDITION_"), "_", " ")
		line += look.Paint(terminal.Yellow, "  catalog "+strings.ToLower(word))
	}
	return line
}

// progress describes the progress of one generation, or returns counts for several.
func (v *watchView) progress(now time.Time) string {
	going := 0
	for _, g := range v.generations {
		if len(v.generations) == 1 {
			return v.progressOf(g, now)
		}
		if !g.Terminal {
			going++
		}
	}
	return fmt.Sprintf("%d in progress, %d finished  %s", going, len(v.generations)-going, formatDuration(now.Sub(v.started)))
}

func (v *watchView) progressOf(g *easelv1.Generation, now time.Time) string {
	look, elapsed := v.ErrStyle, now.Sub(v.started)
	if g.CreateTime != nil {
		elapsed = timeTaken(g, now)
	}
	text := look.Paint(stateColour(g.State), stateWord(g)) + " "
	if v.end.IsZero() || g.Terminal {
		return text + formatDuration(elapsed)
	}
	left := max(v.end.Sub(now), 0)
	text += look.Bar(float64(elapsed)/float64(max(elapsed+left, 1)), v.BarWidth()) + " " + formatDuration(elapsed)
	if left == 0 {
		return text + look.Paint(terminal.Dim, ", longer than usual")
	}
	return text + look.Paint(terminal.Dim, ", about "+formatDuration(left)+" left")
}
