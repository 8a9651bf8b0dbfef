package cli

import (
	"cmp"
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
	questionFlags
	By    usageBy `placeholder:"WHAT" help:"A row for each day, owner, caller, model or label=NAME; several with commas between them. Without it one row has all."`
	Since moment  `placeholder:"DATE" help:"Count orders from this day (2026-11-01, UTC) or time (RFC 3339) on. Without it from the first day of this month."`
	Until moment  `placeholder:"DATE" help:"Count orders up to the end of this day, or up to this time. Without it up to now."`
	CSV   bool    `name:"csv" group:"output" help:"Comma-separated values with a head, amounts in cents."`
}

// Faults tells formats that exclude each other, and times that do.
func (c *usageCmd) Faults() []string {
	faults := FaultList(c.questionFlags.Faults())
	faults.Require(!c.CSV || c.Output != "json" && !c.Quiet, "--csv can't be used together with -o json or -q")
	faults.Require(c.Since.start.IsZero() || c.Until.end.IsZero() || c.Since.start.Before(c.Until.end), "--since must be before --until")
	return faults
}

// Run counts usage.
func (c *usageCmd) Run(ctx context.Context, s *session) error {
	counted, err := s.Usage(ctx, c.query(time.Now()))
	if err != nil {
		return err
	}
	var rows []*easelv1.UsageRow
	for _, row := range counted {
		rows = append(rows, row.Raw)
	}
	if c.CSV {
		return c.writeCSV(s, rows)
	}
	sum := sumOf(rows) // what all has cost, less what came back, is the result in brief
	return s.answer(&easelv1.ListUsageResponse{Rows: rows}, Money(sum[3]-sum[4], ""), func() { c.print(s, rows) })
}

func (c *usageCmd) query(now time.Time) easel.UsageQuery {
	since := c.Since.start
	if since.IsZero() {
		since = time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	return easel.UsageQuery{Start: since, End: c.Until.end, By: c.By.dimensions, Label: c.By.label}
}

// counts are what is counted of a row: names as the contract has them, and the numbers, where most are cents.
var counts = []string{"order_count", "failed_count", "unknown_count", "cost_cents", "refunded_cents", "reserved_cents", "unconfirmed_cents"}

func countsOf(row *easelv1.UsageRow) []int64 {
	return []int64{row.OrderCount, row.FailedCount, row.UnknownCount, row.CostCents, row.RefundedCents, row.ReservedCents, row.UnconfirmedCents}
}

// sumOf adds rows up.
func sumOf(rows []*easelv1.UsageRow) []int64 {
	sum := make([]int64, len(counts))
	for _, row := range rows {
		for i, n := range countsOf(row) {
			sum[i] += n
		}
	}
	return sum
}

// print draws the table. With several rows the last one is their sum.
func (c *usageCmd) print(s *session, rows []*easelv1.UsageRow) {
	if len(rows) == 0 {
		s.Tell("Nothing was ordered in this time.")
		return
	}
	var table [][]terminal.Cell
	for _, row := range rows {
		table = append(table, terminal.Cells(append(c.By.values(row), amountsOf(countsOf(row))...)...))
	}
	if len(rows) > 1 {
		total := terminal.Cells(append(make([]string, len(c.By.dimensions)), amountsOf(sumOf(rows))...)...)
		total[0] = terminal.Cell{Text: "total", Colour: terminal.Bold}
		table = append(table, total)
	}
	var heads []string
	for _, name := range c.By.columns() {
		heads = append(heads, strings.ToUpper(terminal.OneLine(strings.TrimSuffix(name, "_id"))))
	}
	s.Table(append(heads, "ORDERS", "FAILED", "UNKNOWN", "COST", "REFUNDED", "RESERVED", "UNCONFIRMED"), table)
}

// amountsOf are counts as a table has them. What is nothing, other than orders and cost, is left out.
func amountsOf(numbers []int64) (amounts []string) {
	for i, n := range numbers {
		text := strconv.FormatInt(n, 10)
		if strings.HasSuffix(counts[i], "_cents") {
			text = Money(n, "")
		}
		if n == 0 && counts[i] != "order_count" && counts[i] != "cost_cents" {
			text = ""
		}
		amounts = append(amounts, text)
	}
	return amounts
}

func (c *usageCmd) writeCSV(s *session, rows []*easelv1.UsageRow) error {
	var text strings.Builder
	out, head := csv.NewWriter(&text), []string(nil)
	for _, name := range c.By.columns() {
		head = append(head, notFormula(name))
	}
	_ = out.Write(append(head, counts...)) // Error has the error
	for _, row := range rows {
		var record []string
		for _, value := range c.By.values(row) {
			record = append(record, notFormula(value))
		}
		for _, n := range countsOf(row) {
			record = append(record, strconv.FormatInt(n, 10))
		}
		_ = out.Write(record)
	}
	out.Flush()
	s.PrintText(strings.TrimSuffix(text.String(), "\n"))
	return out.Error()
}

// notFormula keeps a spreadsheet from taking the text of a caller for a formula.
func notFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(text)[0]) {
		return "'" + text
	}
	return text
}

// usageBy is by what usage is counted, such as day,label=campaign.
type usageBy struct {
	dimensions []easel.Dimension
	label      string
}

// dimensions are what usage can be counted by, as a command line and the contract call it.
var dimensions = []struct {
	word, column string
	dimension    easel.Dimension
	of           func(*easelv1.UsageRow) string
}{
	{"day", "day", easel.ByDay, (*easelv1.UsageRow).GetDay},
	{"owner", "owner", easel.ByOwner, (*easelv1.UsageRow).GetOwner},
	{"caller", "caller", easel.ByCaller, (*easelv1.UsageRow).GetCaller},
	{"model", "model_id", easel.ByModel, (*easelv1.UsageRow).GetModelId},
	{"label", "", easel.ByLabel, (*easelv1.UsageRow).GetLabelValue},
}

// UnmarshalText reads words with commas between them.
func (b *usageBy) UnmarshalText(text []byte) error {
	for word := range strings.SplitSeq(string(text), ",") {
		name, label, labelled := strings.Cut(word, "=")
		known := false
		for _, d := range dimensions {
			if d.word == name {
				known = true
				b.dimensions = append(b.dimensions, d.dimension)
			}
		}
		if !known || labelled != (name == "label") || labelled && (label == "" || b.label != "") {
			return fmt.Errorf("%q is none of day, owner, caller, model and one label=NAME", word)
		}
		if labelled {
			b.label = label
		}
	}
	return nil
}

// columns are the names of the dimensions as the contract has them; a label has its own.
func (b *usageBy) columns() (names []string) {
	for _, d := range b.dimensions {
		names = append(names, cmp.Or(dimensions[d-easel.ByDay].column, b.label))
	}
	return names
}

// values are the dimensions of a row.
func (b *usageBy) values(row *easelv1.UsageRow) (values []string) {
	for _, d := range b.dimensions {
		values = append(values, terminal.OneLine(dimensions[d-easel.ByDay].of(row)))
	}
	return values
}

// moment is a day in UTC, or a time, which has no length.
type moment struct{ start, end time.Time }

// UnmarshalText reads 2026-11-01, or a time as RFC 3339 has it.
func (m *moment) UnmarshalText(text []byte) error {
	if day, err := time.Parse(time.DateOnly, string(text)); err == nil {
		m.start, m.end = day, day.AddDate(0, 0, 1)
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is no day such as 2026-11-01, and no time such as 2026-11-01T12:00:00Z", text)
	}
	m.start, m.end = at, at
	return nil
}
