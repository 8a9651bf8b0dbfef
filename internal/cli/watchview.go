package cli

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// watchView prints the progress of a watch: a line for each state change and, on a terminal, a live line that is updated by
// each message.
type watchView struct {
	*session
	tell func(string)   // prints a line
	look terminal.Style // style of the stream to which the lines are printed
	raw  bool           // whether each message is printed as JSON

	generations map[string]*easelv1.Generation
	condition   easelv1.UpstreamCondition
}

func newWatchView(s *session, look terminal.Style, tell func(string)) *watchView {
	return &watchView{session: s, tell: tell, look: look, generations: map[string]*easelv1.Generation{}}
}

// printStates prints the state changes of a watch until the watch finishes.
func (v *watchView) printStates(renders iter.Seq2[*easel.Render, error]) error {
	v.message = v.handleMessage
	defer v.ShowLive("")
	for render, err := range renders {
		if err != nil {
			return err
		}
		g := render.Raw
		v.generations[g.GenerationId] = g
		switch {
		case v.raw:
		case !v.quiet:
			v.tell(v.stateLine(g))
		case g.Terminal:
			v.tell(terminal.OneLine(g.GenerationId) + " " + stateWord(g))
		}
		v.showProgress(0)
	}
	return nil
}

// handleMessage handles a message from the server. If v.raw is set, it prints the message as JSON. For a heartbeat, it also
// calls applyHeartbeat. For a caught_up message, it also prints the number of watched renders.
func (v *watchView) handleMessage(m easel.Message) {
	if v.raw {
		v.tell(compactJSON(m))
	}
	if m.GetHeartbeat() != nil {
		v.applyHeartbeat(m.GetHeartbeat())
	}
	if many, ok := m.(*easelv1.WatchGenerationsResponse); ok && many.GetCaughtUp() != nil {
		v.printRemark(fmt.Sprintf("watching %d renders, and every new render; each state change is printed", many.GetCaughtUp().GenerationCount))
	}
}

// resultError returns an error if a generation failed, was refunded or was deleted. If there are several such generations, the
// error is about the one with the lowest ID.
func (v *watchView) resultError() error {
	for _, id := range slices.Sorted(maps.Keys(v.generations)) {
		if err := verdict(v.generations[id]); err != nil {
			return err
		}
	}
	return nil
}

func (v *watchView) stateLine(g *easelv1.Generation) string {
	clock := v.look.Paint(terminal.Dim, time.Now().Format(time.RFC3339))
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
	easelv1.UpstreamCondition_UPSTREAM_CONDITION_CREDENTIAL_REJECTED: "the catalog rejects the server's API key, which its operator must replace; the watch continues",
}

// applyHeartbeat shows the remaining time that a heartbeat estimates. If the catalog's condition has changed since the
// previous heartbeat, it also prints the new condition.
func (v *watchView) applyHeartbeat(h *easelv1.Heartbeat) {
	before, now := v.condition, max(h.UpstreamCondition, easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY)
	if v.condition = now; now != max(before, easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY) {
		text := cmp.Or(conditions[now], "the catalog answers")
		if h.LastError != "" {
			text += " (" + terminal.OneLine(h.LastError) + ")"
		}
		v.printRemark(text)
	}
	v.showProgress(h.TypicalRemaining.AsDuration())
}

// showProgress shows the state of a single render, or the numbers of active and finished renders. left is the estimated
// remaining time; zero means that it is unknown.
func (v *watchView) showProgress(left time.Duration) {
	line, active := "", 0
	for _, g := range v.generations {
		if line = stateWord(g) + " " + formatDuration(timeTaken(g, time.Now())); !g.Terminal {
			active++
		}
	}
	switch {
	case len(v.generations) > 1:
		line = fmt.Sprintf("%d in progress, %d finished", active, len(v.generations)-active)
	case left > 0:
		line += ", about " + formatDuration(left) + " left"
	}
	v.setProgress(line)
}
