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

// watchView shows a watch: a line for each change, and on a terminal a live line that
// says how long it has been and how long it may take.
type watchView struct {
	*session
	tell    func(string)   // writes a state
	look    terminal.Style // of the stream that tell writes to
	started time.Time
	raw     bool // each message is told as JSON
	holds   bool // states are held back until all that there are have come, to be told from the oldest on

	mu          sync.Mutex
	generations map[string]*easelv1.Generation
	held        []*easelv1.Generation
	condition   easelv1.UpstreamCondition
	end         time.Time // when it may be done, zero where nobody knows
	begun       bool      // something has come
	away        string    // why there is no stream right now, "" where there is one
	frame       int
	share       float64 // how far the bar has come; an estimate that grows does not take it back
	barOf       string  // the generation of the bar
}

func newWatchView(s *session, look terminal.Style, tell func(string)) *watchView {
	return &watchView{session: s, tell: tell, look: look, started: time.Now(), generations: map[string]*easelv1.Generation{}}
}

// follow shows what comes of a watch of one generation, or of many for "", until its end.
func (v *watchView) follow(renders iter.Seq2[*easel.Render, error], id string) error {
	defer v.listen(map[bool]string{true: "WatchGenerations", false: "WatchGeneration"}[id == ""], id)()
	defer v.ticking(v.redraw)()
	defer v.release()
	for render, err := range renders {
		if err != nil {
			return err
		}
		v.seen(render.Raw)
	}
	return nil
}

// listen takes in the messages of a watch beside its states, and tells that its stream is lost.
func (v *watchView) listen(method, id string) (stop func()) {
	v.message = v.noted
	unlost := v.onRetry(method, id, v.lost)
	return func() {
		unlost()
		v.message = func(easel.Message) {}
	}
}

// noted takes a message in, for the live line.
func (v *watchView) noted(m easel.Message) {
	v.mu.Lock()
	v.begun = true
	back := v.away != ""
	v.away = ""
	v.mu.Unlock()
	if back {
		v.aside("connected again")
	}
	if v.raw {
		v.tell(compactJSON(m))
	}
	if m.GetHeartbeat() != nil {
		v.heard(m.GetHeartbeat())
		v.release() // nobody should wait longer for what is there
	}
	if many, ok := m.(*easelv1.WatchGenerationsResponse); ok && many.GetCaughtUp() != nil && v.holds {
		v.release()
		v.holds = false
		v.aside(fmt.Sprintf("watching %d renders; new renders appear as they come", many.GetCaughtUp().GenerationCount))
	}
}

// seen takes in a state, and tells it.
func (v *watchView) seen(g *easelv1.Generation) {
	v.mu.Lock()
	_, known := v.generations[g.GenerationId]
	v.generations[g.GenerationId] = g
	v.mu.Unlock()
	switch {
	case v.raw:
	case v.holds:
		v.held = append(v.held, g)
	default:
		v.changed(g, known)
	}
}

// release tells what is held back, the oldest generation first, as one that does not say when it was ordered.
func (v *watchView) release() {
	slices.SortStableFunc(v.held, func(a, b *easelv1.Generation) int { return a.CreateTime.AsTime().Compare(b.CreateTime.AsTime()) })
	for _, g := range v.held {
		v.changed(g, true)
	}
	v.held = nil
}

// worst gives the verdict on all generations: the first that did not succeed.
func (v *watchView) worst() error {
	for _, id := range slices.Sorted(maps.Keys(v.generations)) {
		if err := verdict(v.generations[id]); err != nil {
			return err
		}
	}
	return nil
}

// changed writes the line of a new state. The contract says "deleted" of every generation that the catalog
// does not have; of one that nobody here has seen that would be a guess.
func (v *watchView) changed(g *easelv1.Generation, known bool) {
	if v.quiet {
		if g.Terminal {
			v.tell(terminal.OneLine(g.GenerationId) + " " + stateWord(g))
		}
		return
	}
	v.tell(v.stateLine(g, known))
}

func (v *watchView) stateLine(g *easelv1.Generation, known bool) string {
	word := stateWord(g)
	if g.State == easelv1.State_STATE_DELETED && !known {
		word = "not found"
	}
	state := v.look.Paint(stateColour(g.State), fmt.Sprintf("%-9s", word))
	facts := joinNonEmpty(terminal.OneLine(g.ModelId), costText(g), v.look.Paint(terminal.Yellow, ageText(g, time.Now())))
	if g.Terminal {
		facts = joinNonEmpty(afterText(g), resultSummary(g))
	}
	line := v.clock() + "  " + terminal.OneLine(g.GenerationId) + "  " + state + "  " + facts
	return strings.TrimRight(line, " ")
}

// clock is short for a person and complete for a log.
func (v *watchView) clock() string {
	if v.look.Terminal {
		return v.look.Paint(terminal.Dim, time.Now().Format(time.TimeOnly))
	}
	return time.Now().Format(time.RFC3339)
}

// heard takes a heartbeat in. A change of the catalog's condition is worth a line.
func (v *watchView) heard(h *easelv1.Heartbeat) {
	healthy := easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY
	v.mu.Lock()
	if v.end = (time.Time{}); h.TypicalRemaining != nil {
		v.end = time.Now().Add(h.TypicalRemaining.AsDuration())
	}
	was, is := max(v.condition, healthy), max(h.UpstreamCondition, healthy)
	v.condition = is
	v.mu.Unlock()
	if was != is {
		v.aside(conditionText(h))
	}
}

var conditions = map[easelv1.UpstreamCondition]string{
	easelv1.UpstreamCondition_UPSTREAM_CONDITION_THROTTLED:           "the catalog asked to slow down; the watch goes on",
	easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE:         "the catalog does not answer; the watch goes on",
	easelv1.UpstreamCondition_UPSTREAM_CONDITION_CREDENTIAL_REJECTED: "the catalog rejects the server's key, its operator must act; the watch goes on",
}

// conditionText says how the catalog behaves.
func conditionText(h *easelv1.Heartbeat) string {
	text := cmp.Or(conditions[h.UpstreamCondition], "the catalog answers")
	if h.LastError != "" {
		text += " (" + terminal.OneLine(h.LastError) + ")"
	}
	return text
}

// lost tells that the stream is gone and when the next one is tried. While the reason stays the same, once is enough.
func (v *watchView) lost(r easel.Retry) {
	v.mu.Lock()
	why := cmp.Or(messageOf(r.Err), "the stream ended")
	again, begun := v.away == why, v.begun
	v.away = why
	v.mu.Unlock()
	what := "lost the stream"
	if !begun {
		what = "can't watch yet"
	}
	if !again {
		v.aside(what + " (" + why + "), trying again in " + formatDuration(r.Delay))
	}
}

// redraw draws the live line anew.
func (v *watchView) redraw() {
	v.mu.Lock()
	v.frame++
	line := v.liveLine(time.Now())
	v.mu.Unlock()
	v.ShowLive(line)
}

func (v *watchView) liveLine(now time.Time) string {
	look := v.ErrStyle
	line := look.Paint(terminal.Blue, look.Spinner(v.frame)) + " " + v.subject(now)
	if v.away != "" {
		return line + look.Paint(terminal.Yellow, "  connecting")
	}
	if v.condition > easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY {
		word := strings.ReplaceAll(strings.TrimPrefix(v.condition.String(), "UPSTREAM_CONDITION_"), "_", " ")
		return line + look.Paint(terminal.Yellow, "  catalog "+strings.ToLower(word))
	}
	return line
}

// subject tells what is being watched: one generation, or how many are in which state.
func (v *watchView) subject(now time.Time) string {
	if len(v.generations) == 1 {
		for _, g := range v.generations {
			return v.one(g, now)
		}
	}
	going := 0
	for _, g := range v.generations {
		if !g.Terminal {
			going++
		}
	}
	return fmt.Sprintf("%d going on, %d finished  %s", going, len(v.generations)-going, formatDuration(now.Sub(v.started)))
}

func (v *watchView) one(g *easelv1.Generation, now time.Time) string {
	look, elapsed := v.ErrStyle, now.Sub(v.started)
	if g.CreateTime != nil {
		elapsed = timeTaken(g, now)
	}
	text := look.Paint(stateColour(g.State), stateWord(g)) + " "
	if v.end.IsZero() || g.Terminal {
		return text + formatDuration(elapsed)
	}
	left := max(v.end.Sub(now), 0)
	text += look.Bar(v.advance(g, float64(elapsed)/float64(max(elapsed+left, 1))), v.BarWidth()) + " " + formatDuration(elapsed)
	if left == 0 {
		return text + look.Paint(terminal.Dim, ", longer than usual")
	}
	return text + look.Paint(terminal.Dim, ", about "+formatDuration(left)+" left")
}

// advance gives the share to show: the one that follows from the estimate, or the one that
// was shown before where that is more.
func (v *watchView) advance(g *easelv1.Generation, share float64) float64 {
	if v.barOf != g.GenerationId {
		v.barOf, v.share = g.GenerationId, 0
	}
	v.share = max(v.share, share)
	return v.share
}
