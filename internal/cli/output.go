package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// compactJSON formats a message as one line of protobuf JSON, including fields with default values.
func compactJSON(m proto.Message) string {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		text = fmt.Appendf(nil, `{"error":{"message":%q}}`, err)
	}
	var line bytes.Buffer
	_ = json.Compact(&line, text) // protojson inserts random spaces; compacting valid JSON cannot fail
	return terminal.Sanitize(line.String())
}

// jsonLine formats a value as one line of JSON.
func jsonLine(v any) string {
	text, _ := json.Marshal(v) // cannot fail for the types that are passed here
	return terminal.Sanitize(string(text))
}

// JSONText formats a value as indented JSON.
func JSONText(v any) string { return indented(jsonLine(v)) }

// printJSON prints a message as indented JSON.
func (s *session) printJSON(m proto.Message) { s.PrintText(indented(compactJSON(m))) }

func indented(line string) string {
	var text bytes.Buffer
	_ = json.Indent(&text, []byte(line), "", "  ") // cannot fail, because the line is valid JSON
	return text.String()
}

// printResult prints a command's result. With -o json, it prints m as JSON. With --quiet, it prints only the string brief.
// Otherwise, it calls printTable, which prints the result for people.
func (s *session) printResult(m proto.Message, brief string, printTable func()) error {
	switch {
	case s.json:
		s.printJSON(m)
	case s.quiet:
		s.PrintText(brief)
	default:
		printTable()
	}
	return s.Err()
}

// Money formats an amount in cents, such as 1234, as "12.34 EUR". An empty currency means EUR.
func Money(cents int64, currency string) string {
	sign, whole := "", uint64(cents)
	if cents < 0 {
		sign, whole = "-", -whole
	}
	return fmt.Sprintf("%s%d.%02d %s", sign, whole/100, whole%100, cmp.Or(terminal.OneLine(currency), "EUR"))
}

// Amount is an amount of money on the command line. It needs decimals or a unit, because 50 could mean cents or euros.
type Amount struct{ Cents *int64 }

// UnmarshalText parses 0.50 (euros, always with two decimals) or 50c (cents).
func (a *Amount) UnmarshalText(text []byte) error {
	parts := amountForm.FindStringSubmatch(string(text))
	cents, err := strconv.ParseUint(strings.Join(parts[min(len(parts), 1):], ""), 10, 63)
	if err != nil {
		return fmt.Errorf("%q is not an amount; write 0.50 (euros, always with two decimals) or 50c (cents)", text)
	}
	a.Cents = new(int64(cents))
	return nil
}

// amountForm matches amounts such as 0.50 and 50c. Its groups are the euros and the cents of the first form, and the cents of
// the second form.
var amountForm = regexp.MustCompile(`^(?:(\d+)\.(\d\d)|(\d+)c)$`)

// formatBytes formats a number of bytes for display.
func formatBytes(bytes int64) string { return humanize.Bytes(uint64(max(bytes, 0))) }

// formatDuration formats a duration for display.
func formatDuration(d time.Duration) string {
	if d < 10*time.Second {
		return max(d, 0).Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// formatTime formats a time for display, in the local time zone. It returns "" for nil.
func formatTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05")
}

// stateWord returns a generation's state in lower case, such as "queued".
func stateWord(g *easelv1.Generation) string {
	return strings.ToLower(strings.TrimPrefix(g.State.String(), "STATE_"))
}

var stateColours = map[easelv1.State]string{
	easelv1.State_STATE_SUCCEEDED: terminal.Green, easelv1.State_STATE_FAILED: terminal.Red, easelv1.State_STATE_DELETED: terminal.Red,
	easelv1.State_STATE_REFUNDED: terminal.Yellow,
}

func stateColour(s easelv1.State) string { return cmp.Or(stateColours[s], terminal.Blue) }

// timeTaken returns the time from a generation's creation until it finished, or until now if it is not finished. It returns
// zero if the time of creation is unknown.
func timeTaken(g *easelv1.Generation, now time.Time) time.Duration {
	if g.CreateTime == nil {
		return 0
	}
	if g.TerminalTime != nil {
		now = g.TerminalTime.AsTime()
	}
	return max(now.Sub(g.CreateTime.AsTime()), 0)
}

// afterText returns a phrase such as "after 12s" for a finished generation, or "" if the duration is unknown.
func afterText(g *easelv1.Generation) string {
	if g.TerminalTime == nil || g.CreateTime == nil {
		return ""
	}
	return "after " + formatDuration(timeTaken(g, time.Time{}))
}

// costText formats a generation's cost. It returns "" if the cost is unknown.
func costText(g *easelv1.Generation) string {
	if g.CostCents == nil {
		return ""
	}
	return Money(g.GetCostCents(), "")
}

// joinNonEmpty joins the non-empty strings with commas.
func joinNonEmpty(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ", ")
}

// oldAfter is the age at which a state counts as old, so that its age is printed. While the catalog is available, states are
// updated before they reach this age.
const oldAfter = 30 * time.Second

// ageText returns a remark about the age of a generation's state, or "" if the state is final, recent or of unknown age.
func ageText(g *easelv1.Generation, now time.Time) string {
	if g.Terminal || g.ObserveTime == nil || now.Sub(g.ObserveTime.AsTime()) < oldAfter {
		return ""
	}
	return "as of " + formatDuration(now.Sub(g.ObserveTime.AsTime())) + " ago: the catalog has not answered since"
}

// resultSummary returns a short description of a generation's result, or the failure message if there is no result.
func resultSummary(g *easelv1.Generation) string {
	kind := terminal.OneLine(g.GetFile().GetContentType())
	switch {
	case g.GetFile() != nil && g.GetFile().SizeBytes != nil:
		return strings.TrimPrefix(kind+", ", ", ") + formatBytes(g.GetFile().GetSizeBytes())
	case g.GetFile() != nil:
		return strings.TrimSuffix("file "+kind, " ")
	case g.GetText() != nil:
		return fmt.Sprintf("text, %d characters", len([]rune(g.GetText().Text)))
	}
	return terminal.OneLine(g.FailureMessage)
}
