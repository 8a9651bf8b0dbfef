package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type usageCmd struct {
	callFlags
	By    usageBy `placeholder:"WHAT" help:"Group the orders by day, owner, caller, model or label=NAME, or by several of these, separated by commas. Default: one row for all orders."`
	Since moment  `placeholder:"DATE" help:"Count only orders placed since this day (2026-11-01, UTC) or time (RFC 3339). Default: the first day of this month."`
	Until moment  `placeholder:"DATE" help:"Count orders up to the end of this day, or up to this time. Default: now."`
	CSV   bool    `name:"csv" group:"output" help:"Print comma-separated values with a header, and amounts in cents."`
}

// Faults returns a message for each invalid flag or combination of flags.
func (c *usageCmd) Faults() []string {
	faults := FaultList(c.callFlags.Faults())
	faults.Require(!c.CSV || c.Output != "json" && !c.Quiet, "--csv can't be used together with -o json or -q")
	faults.Require(c.Since.start.IsZero() || c.Until.end.IsZero() || c.Since.start.Before(c.Until.end), "--since must be before --until")
	return faults
}

// Run prints counts and costs of orders.
func (c *usageCmd) Run(ctx context.Context, s *session) error {
	since, now := c.Since.start, time.Now().UTC()
	if since.IsZero() {
		since = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	counted, err := s.Usage(ctx, easel.UsageQuery{Start: since, End: c.Until.end, By: c.By.dimensions, Label: c.By.label})
	if err != nil {
		return err
	}
	rows, total := []*easelv1.UsageRow(nil), make([]int64, len(counts))
	for _, row := range counted {
		rows = append(rows, row.Raw)
		for i, n := range countsOf(row.Raw) {
			total[i] += n
		}
	}
	if c.CSV {
		return c.writeCSV(s, rows)
	}
	return s.printResult(&easelv1.ListUsageResponse{Rows: rows}, Money(total[3]-total[4], ""), func() { c.printUsage(s, rows, total) }) // with --quiet, prints only the cost minus refunds
}

// counts contains the names of the numeric fields of a UsageRow message.
var counts = []string{"order_count", "failed_count", "unknown_count", "cost_cents", "refunded_cents", "reserved_cents", "unconfirmed_cents"}

func countsOf(row *easelv1.UsageRow) []int64 {
	return []int64{row.OrderCount, row.FailedCount, row.UnknownCount, row.CostCents, row.RefundedCents, row.ReservedCents, row.UnconfirmedCents}
}

// printUsage prints the usage as a table. If there are several rows, a row with the totals follows.
func (c *usageCmd) printUsage(s *session, rows []*easelv1.UsageRow, total []int64) {
	if len(rows) == 0 {
		s.Note("Nothing was ordered in this period.")
		return
	}
	var heads []string
	for _, name := range c.By.columns() {
		heads = append(heads, strings.ToUpper(terminal.OneLine(strings.TrimSuffix(name, "_id"))))
	}
	var table [][]terminal.Cell
	for _, row := range rows {
		table = append(table, terminal.Cells(append(c.By.values(row), formatAmounts(countsOf(row))...)...))
	}
	if len(rows) > 1 {
		last := terminal.Cells(append(make([]string, len(heads)), formatAmounts(total)...)...)
		last[0] = terminal.Cell{Text: "total", Colour: terminal.Bold}
		table = append(table, last)
	}
	s.Table(append(heads, "ORDERS", "FAILED", "UNKNOWN", "COST", "REFUNDED", "RESERVED", "UNCONFIRMED"), table)
}

// formatAmounts formats the numbers of a usage row for a table. A zero becomes an empty cell, except in the columns for orders
// and cost.
func formatAmounts(numbers []int64) (texts []string) {
	for i, n := range numbers {
		switch {
		case n == 0 && counts[i] != "order_count" && counts[i] != "cost_cents":
			texts = append(texts, "")
		case strings.HasSuffix(counts[i], "_cents"):
			texts = append(texts, Money(n, ""))
		default:
			texts = append(texts, strconv.FormatInt(n, 10))
		}
	}
	return texts
}

func (c *usageCmd) writeCSV(s *session, rows []*easelv1.UsageRow) error {
	var text strings.Builder
	out := csv.NewWriter(&text)
	_ = out.Write(append(noFormulas(c.By.columns()), counts...)) // out.Error reports write errors at the end
	for _, row := range rows {
		record := noFormulas(c.By.values(row))
		for _, n := range countsOf(row) {
			record = append(record, strconv.FormatInt(n, 10))
		}
		_ = out.Write(record)
	}
	out.Flush()
	s.PrintText(strings.TrimSuffix(text.String(), "\n"))
	return out.Error()
}

// noFormulas puts an apostrophe before each text that a spreadsheet would evaluate as a formula. The texts may come from callers.
func noFormulas(texts []string) []string {
	for i, text := range texts {
		if text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(text)[0]) {
			texts[i] = "'" + text
		}
	}
	return texts
}

// usageBy is the value of --by: the dimensions by which usage is grouped, and the label's name if one of them is a label.
type usageBy struct {
	dimensions []easel.Dimension
	label      string
}

// UnmarshalText parses dimensions separated by commas, such as "day,label=project".
func (b *usageBy) UnmarshalText(text []byte) error {
	for word := range strings.SplitSeq(string(text), ",") {
		name, label, labelled := strings.Cut(word, "=")
		dimension := easel.Dimension(easelv1.UsageDimension_value["USAGE_DIMENSION_"+strings.ToUpper(name)])
		if dimension == 0 || name != strings.ToLower(name) || labelled != (dimension == easel.ByLabel) || labelled && (label == "" || b.label != "") {
			return fmt.Errorf("%q must be day, owner, caller, model or label=NAME (at most one label)", word)
		}
		b.dimensions = append(b.dimensions, dimension)
		if labelled {
			b.label = label
		}
	}
	return nil
}

// columns returns a name for each dimension: its name in the contract or, for a label, the label's name.
func (b *usageBy) columns() (names []string) {
	for _, d := range b.dimensions {
		names = append(names, map[easel.Dimension]string{easel.ByDay: "day", easel.ByOwner: "owner", easel.ByCaller: "caller", easel.ByModel: "model_id", easel.ByLabel: b.label}[d])
	}
	return names
}

// values returns a row's value for each dimension in b.
func (b *usageBy) values(row *easelv1.UsageRow) (values []string) {
	for _, d := range b.dimensions {
		values = append(values, terminal.OneLine(map[easel.Dimension]string{
			easel.ByDay: row.GetDay(), easel.ByOwner: row.GetOwner(), easel.ByCaller: row.GetCaller(), easel.ByModel: row.GetModelId(), easel.ByLabel: row.GetLabelValue(),
		}[d]))
	}
	return values
}

// moment is a UTC day or a point in time. For a point in time, start and end are equal.
type moment struct{ start, end time.Time }

// UnmarshalText parses a day such as 2026-11-01, or an RFC 3339 time.
func (m *moment) UnmarshalText(text []byte) error {
	if day, err := time.Parse(time.DateOnly, string(text)); err == nil {
		m.start, m.end = day, day.AddDate(0, 0, 1)
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q must be a day such as 2026-11-01, or a time such as 2026-11-01T12:00:00Z", text)
	}
	m.start, m.end = at, at
	return nil
}
