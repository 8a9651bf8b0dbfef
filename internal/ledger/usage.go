package ledger

import (
	"context"
	"database/sql"
	"fmt"
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

// expression is a dimension in SQL; each %s is an argument.
func (d Dimension) expression() string {
	switch d {
	case ByOwner:
		return "owner"
	case ByCaller:
		return "caller"
	case ByModel:
		return "model_id"
	case ByLabel:
		return "COALESCE((SELECT value FROM labels WHERE order_id = orders.id AND name = %s), '')"
	}
	return fmt.Sprintf("CAST(order_time / %d AS TEXT)", microsecondsOfDay)
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

// sums are what is counted of the orders of a row.
const sums = `COUNT(CASE WHEN state = {placed} THEN 1 END), COUNT(CASE WHEN state = {placed} AND status IN ({failed}, {refunded}) THEN 1 END), COUNT(CASE WHEN state = {open} THEN 1 END),
	CAST(COALESCE(SUM(cost_cents), 0) AS BIGINT), CAST(SUM(refunded_cents) AS BIGINT), CAST(SUM(reserved_cents) AS BIGINT), CAST(SUM(unconfirmed_cents) AS BIGINT)`

// Usage counts orders and money, in the rows of the orders' own times, in the order of their dimensions.
func (l *Ledger) Usage(ctx context.Context, q UsageQuery) ([]Usage, error) {
	ctx = inTurn(ctx, forReport, nameOf(q.Owner))
	statement, args := q.statement()
	return ask(ctx, l, q.scan, statement, args...)
}

// scan reads a row. Days are written as dates.
func (q UsageQuery) scan(rows *sql.Rows, u *Usage) error {
	u.Dimensions = make([]string, len(q.By))
	into := []any{new(int)}
	for n := range u.Dimensions {
		into = append(into, &u.Dimensions[n])
	}
	err := rows.Scan(append(into, &u.Orders, &u.Failed, &u.Unknown, &u.CostCents, &u.RefundedCents, &u.ReservedCents, &u.UnconfirmedCents)...)
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
	c, names, after := &clauses{}, []string{"d0"}, []any{0}
	c.add("0 AS d0")
	for n, d := range q.By {
		name := fmt.Sprintf("d%d", n+1)
		names = append(names, name)
		if d == ByLabel {
			c.add(d.expression()+" AS "+name, q.LabelName)
		} else {
			c.add(d.expression() + " AS " + name)
		}
	}
	dimensions, list := c.take(), strings.Join(names, ", ")
	c.add("order_time >= %s AND order_time < %s AND state <> {refused}", q.Start.UnixMicro(), q.End.UnixMicro())
	if q.Owner != nil {
		c.add("owner = %s", *q.Owner)
	}
	from := fmt.Sprintf(`SELECT %s, state, status, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents FROM orders WHERE %s`, dimensions, c)
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
	c.add("TRUE GROUP BY "+list+" ORDER BY "+list+" LIMIT %s", q.Most)
	return fmt.Sprintf(`SELECT %s, %s FROM (%s) AS chosen WHERE %s`, list, sums, from, c), c.args
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
