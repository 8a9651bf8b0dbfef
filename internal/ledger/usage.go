package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dimension is by what usage is counted.
type Dimension int

// The dimensions of usage.
const (
	ByDay Dimension = iota // UTC
	ByOwner
	ByCaller
	ByModel
	ByLabel
)

// microsecondsOfDay are those of a day, which is how a day is counted in the book.
const microsecondsOfDay = int64(24 * time.Hour / time.Microsecond)

// expression is a dimension of an order in SQL; each %s is an argument. {bytes} is the order of a rollup's.
func (d Dimension) expression() string {
	switch d {
	case ByOwner:
		return "owner {bytes}"
	case ByCaller:
		return "caller {bytes}"
	case ByModel:
		return "model_id {bytes}"
	case ByLabel:
		return "COALESCE((SELECT value FROM labels WHERE order_id = orders.id AND name = %s), '') {bytes}"
	}
	return fmt.Sprintf("CAST(order_time / %d AS TEXT) {bytes}", microsecondsOfDay)
}

// Usage is a row of what was ordered.
type Usage struct {
	// Dimensions are the values of the dimensions that were asked for, in their order. A day is written as
	// 2026-11-22.
	Dimensions []string
	// Orders have an id; Failed are those of them that have failed, refunded ones too. Unknown have no
	// outcome yet.
	Orders, Failed, Unknown int64
	// CostCents is without refunds; the others are as in [Money].
	CostCents, RefundedCents, ReservedCents, UnconfirmedCents int64
}

// UsageQuery asks for usage.
type UsageQuery struct {
	// Owner is whose usage it is; nil is everybody's.
	Owner *string
	// Start and End bound the times of the orders. Start is within, End is not.
	Start, End time.Time
	// By are the dimensions, and LabelName is the label of [ByLabel].
	By        []Dimension
	LabelName string
	// After are the dimensions of the last row before; nil is the beginning. Most is how many rows come.
	After []string
	Most  int
}

// counts are what is counted of orders, less or more; rollups have it by the same names.
const counts = `%[1]s CASE WHEN state = {placed} THEN 1 ELSE 0 END AS orders, %[1]s CASE WHEN state = {placed} AND status IN ({failed}, {refunded}) THEN 1 ELSE 0 END AS failed,
	%[1]s CASE WHEN state = {open} THEN 1 ELSE 0 END AS unknown, %[1]s COALESCE(cost_cents, 0) AS cost_cents, %[1]s refunded_cents AS refunded_cents,
	%[1]s reserved_cents AS reserved_cents, %[1]s unconfirmed_cents AS unconfirmed_cents`

// sums are the counts of a row.
const sums = `CAST(SUM(orders) AS BIGINT), CAST(SUM(failed) AS BIGINT), CAST(SUM(unknown) AS BIGINT),
	CAST(SUM(cost_cents) AS BIGINT), CAST(SUM(refunded_cents) AS BIGINT), CAST(SUM(reserved_cents) AS BIGINT), CAST(SUM(unconfirmed_cents) AS BIGINT)`

// Usage counts orders and money, in the rows of the orders' own times, in the order of their dimensions.
func (l *Ledger) Usage(ctx context.Context, q UsageQuery) ([]Usage, error) {
	statement, args := q.statement()
	return ask(ctx, l, q.scan, statement, args...)
}

// scan reads a row. Days are written as dates.
func (q UsageQuery) scan(row scanner, u *Usage) error {
	u.Dimensions = make([]string, len(q.By))
	into := []any{new(int)}
	for n := range u.Dimensions {
		into = append(into, &u.Dimensions[n])
	}
	err := row.Scan(append(into, &u.Orders, &u.Failed, &u.Unknown, &u.CostCents, &u.RefundedCents, &u.ReservedCents, &u.UnconfirmedCents)...)
	for n, d := range q.By {
		if d == ByDay && err == nil {
			u.Dimensions[n], err = date(u.Dimensions[n])
		}
	}
	return err
}

// statement selects the rows. The dimensions are named d1, d2 and so on; d0 is the same everywhere, so that there is one
// to group by.
func (q UsageQuery) statement() (statement string, args []any) {
	names, after := []string{"d0"}, []any{0}
	for n := range q.By {
		names = append(names, fmt.Sprintf("d%d", n+1))
	}
	c, list := &clauses{}, strings.Join(names, ", ")
	from := q.sources(c)
	c.all = []string{"TRUE"}
	for n, value := range q.After {
		if q.By[n] == ByDay {
			value = dayNumber(value)
		}
		after = append(after, value)
	}
	if len(after) > 1 {
		c.add("("+list+") > (%s"+strings.Repeat(", %s", len(q.After))+")", after...)
	}
	c.add("TRUE GROUP BY "+list+" HAVING SUM(orders) + SUM(unknown) > 0 ORDER BY "+list+" LIMIT %s", q.Most)
	return fmt.Sprintf(`SELECT %s, %s FROM (%s) AS chosen WHERE %s`, list, sums, from, c), c.args
}

// sources returns the counts of a query: the rollups of the days that its times touch, less the orders of these days beyond
// those times, and the orders without an outcome, by the index of those. Only orders have labels.
func (q UsageQuery) sources(c *clauses) string {
	start, end := max(0, q.Start.UnixMicro()), min(q.End.UnixMicro(), endOfTime.UnixMicro())
	if slices.Contains(q.By, ByLabel) {
		return q.ofOrders(c, "", "state <> {refused}", "order_time", start, end)
	}
	days, ends := start/microsecondsOfDay*microsecondsOfDay, (end+microsecondsOfDay-1)/microsecondsOfDay*microsecondsOfDay
	all := []string{q.ofOrders(c, "", "state = {open} AND retry_time >= 0", "order_time + 0", start, end), q.ofRollups(c, days, ends)}
	if start > days {
		all = append(all, q.ofOrders(c, "-", "state = {placed}", "order_time", days, start))
	}
	if ends > end {
		all = append(all, q.ofOrders(c, "-", "state = {placed}", "order_time", end, ends))
	}
	return strings.Join(all, " UNION ALL ")
}

// endOfTime is after all orders.
var endOfTime = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// ofOrders selects the counts of orders that were written between two times, with a sign.
func (q UsageQuery) ofOrders(c *clauses, sign, condition, time string, start, end int64) string {
	c.all = []string{"0 AS d0"}
	for n, d := range q.By {
		if d == ByLabel {
			c.add(d.expression()+fmt.Sprintf(" AS d%d", n+1), q.LabelName)
		} else {
			c.add(d.expression() + fmt.Sprintf(" AS d%d", n+1))
		}
	}
	selected := c.take() + ", " + fmt.Sprintf(counts, sign)
	return "SELECT " + selected + " FROM orders WHERE " + q.between(c, condition, time, start, end)
}

// ofRollups selects the counts of the days from start to end.
func (q UsageQuery) ofRollups(c *clauses, start, end int64) string {
	selected := "0 AS d0"
	for n, d := range q.By {
		selected += fmt.Sprintf(", %s AS d%d", rolled[d], n+1)
	}
	return "SELECT " + selected + ", orders, failed, 0, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents FROM rollups WHERE " +
		q.between(c, "TRUE", "start_time", start, end)
}

// rolled are the dimensions in rollups.
var rolled = map[Dimension]string{
	ByDay: fmt.Sprintf("CAST(start_time / %d AS TEXT)", microsecondsOfDay) + " {bytes}", ByOwner: "owner", ByCaller: "caller", ByModel: "model_id",
}

// between is a condition, and that of a time.
func (q UsageQuery) between(c *clauses, condition, time string, start, end int64) string {
	c.add(condition+" AND "+time+" >= %s AND "+time+" < %s", start, end)
	if q.Owner != nil {
		c.add("owner = %s", *q.Owner)
	}
	condition = c.String()
	c.all = nil
	return condition
}

// date is a day as the book counts days, written as 2026-11-22.
func date(number string) (string, error) {
	day, err := strconv.ParseInt(number, 10, 64)
	return time.UnixMicro(day * microsecondsOfDay).UTC().Format(time.DateOnly), err
}

// dayNumber is a date as the book counts days.
func dayNumber(date string) string {
	day, _ := time.Parse(time.DateOnly, date) // a page token has what was answered
	return fmt.Sprint(day.UnixMicro() / microsecondsOfDay)
}
