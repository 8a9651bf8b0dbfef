package cli

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

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

	mu          sync.Mutex
	generations map[string]*easelv1.Generation
	condition   easelv1.UpstreamCondition
	end         time.Time // when it may be done, zero where nobody knows
	heartbeat   *easelv1.Heartbeat
	begun       bool   // something has come
	away        string // why there is no stream right now, "" where there is one
	frame       int
	share       float64 // how far the bar has come; an estimate that grows does not take it back
	barOf       string  // the generation of the bar
}

func newWatchView(s *session, look terminal.Style, tell func(string)) *watchView {
	return &watchView{
		session: s, tell: tell, look: look,
		started: time.Now(), generations: map[string]*easelv1.Generation{},
	}
}

// seen shows one event.
func (v *watchView) seen(e event) {
	known := v.note(e)
	switch {
	case v.json:
		v.tell(compactJSON(e.raw))
	case e.update != nil:
		v.changed(e.update.Generation, known)
	}
}

// note takes an event in, for the live line. It reports whether the generation of an update was there
// before.
func (v *watchView) note(e event) (known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.begun = true
	if v.away != "" {
		v.away = ""
		v.aside("connected again")
	}
	if e.heartbeat != nil {
		v.heard(e.heartbeat)
	}
	if e.update != nil {
		_, known = v.generations[e.update.Generation.GenerationId]
		v.generations[e.update.Generation.GenerationId] = e.update.Generation
	}
	return known
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
	facts := joinNonEmpty(terminal.OneLine(g.ModelId), costText(g))
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
	v.heartbeat, v.end = h, time.Time{}
	if h.TypicalRemaining != nil {
		v.end = time.Now().Add(h.TypicalRemaining.AsDuration())
	}
	healthy := easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY
	was, is := max(v.condition, healthy), max(h.UpstreamCondition, healthy)
	v.condition = is
	if was != is {
		v.aside(conditionText(h))
	}
}

// conditionText says how the catalog behaves.
func conditionText(h *easelv1.Heartbeat) string {
	text := "the catalog answers"
	switch h.UpstreamCondition {
	case easelv1.UpstreamCondition_UPSTREAM_CONDITION_THROTTLED:
		text = "the catalog asked to slow down; the watch goes on"
	case easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE:
		text = "the catalog does not answer; the watch goes on"
	case easelv1.UpstreamCondition_UPSTREAM_CONDITION_CREDENTIAL_REJECTED:
		text = "the catalog rejects the server's key, its operator must act; the watch goes on"
	}
	if h.LastError != "" {
		text += " (" + terminal.OneLine(h.LastError) + ")"
	}
	return text
}

// lost tells that the stream is gone and when the next one is tried. While the reason
// stays the same, once is enough.
func (v *watchView) lost(err error, delay time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	why := cmp.Or(messageOf(err), "the stream ended")
	if v.away == why {
		return
	}
	v.away = why
	what := "lost the stream"
	if !v.begun {
		what = "can't watch yet"
	}
	v.aside(what + " (" + v.away + "), trying again in " + formatDuration(delay))
}

// aside writes a remark about the watch, never between the results.
func (v *watchView) aside(text string) {
	switch {
	case v.quiet:
	case v.json:
		v.noteJSON(text)
	default:
		v.Tell(v.ErrStyle.Paint(terminal.Dim, text))
	}
}

// redraw draws the live line anew.
func (v *watchView) redraw() {
	v.ShowLive(v.drawn())
}

// drawn is the next frame of the live line, for who draws it among others.
func (v *watchView) drawn() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.frame++
	return v.liveLine(time.Now())
}

func (v *watchView) liveLine(now time.Time) string {
	return v.liveLineOf(v.subject(now))
}

// liveLineOf is the live line of a subject, with what is the matter.
func (v *watchView) liveLineOf(subject string) string {
	look := v.ErrStyle
	line := look.Paint(terminal.Blue, look.Spinner(v.frame)) + " " + subject
	if v.away != "" {
		return line + look.Paint(terminal.Yellow, "  connecting")
	}
	if v.condition > easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY {
		return line + look.Paint(terminal.Yellow, "  "+conditionWord(v.condition))
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

func conditionWord(c easelv1.UpstreamCondition) string {
	return "catalog " + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(c.String(), "UPSTREAM_CONDITION_"), "_", " "))
}
