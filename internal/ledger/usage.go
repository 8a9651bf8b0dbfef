package ledger

import (
	"context"
	"fmt"
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
const sums = `COUNT(CASE WHEN state = 2 THEN 1 END), COUNT(CASE WHEN state = 2 AND status IN (3, 5) THEN 1 END), COUNT(CASE WHEN state = 1 THEN 1 END),
	CAST(COALESCE(SUM(cost_cents), 0) AS BIGINT), CAST(SUM(refunded_cents) AS BIGINT), CAST(SUM(reserved_cents) AS BIGINT), CAST(SUM(unconfirmed_cents) AS BIGINT)`

// Usage counts orders and money, in the rows of the orders' own times, in the order of their dimensions.
func (l *Ledger) Usage(ctx context.Context, q UsageQuery) (all []Usage, err error) {
	statement, args := q.statement()
	err = l.reading(ctx, func(tx *transaction) error {
		rows, err := tx.rows(statement, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // rows.Err tells more
		for rows.Next() {
			u := Usage{Dimensions: make([]string, len(q.By))}
			into := make([]any, 0, len(q.By)+7)
			for n := range u.Dimensions {
				into = append(into, &u.Dimensions[n])
			}
			if err := rows.Scan(append(into, &u.Orders, &u.Failed, &u.Unknown, &u.CostCents, &u.RefundedCents, &u.ReservedCents, &u.UnconfirmedCents)...); err != nil {
				return err
			}
			all = append(all, u.dated(q.By))
		}
		return rows.Err()
	})
	return all, err
}

// statement selects the rows. The dimensions are named d1, d2 and so on.
func (q UsageQuery) statement() (statement string, args []any) {
	c := &clauses{}
	for n, d := range q.By {
		if d == ByLabel {
			c.add(d.expression()+fmt.Sprintf(" AS d%d", n+1), q.LabelName)
			continue
		}
		c.all = append(c.all, d.expression()+fmt.Sprintf(" AS d%d", n+1))
	}
	dimensions := strings.Join(append(c.all, ""), ", ")
	c.all = nil
	c.add("order_time >= %s AND order_time < %s AND state <> 3", q.Start.UnixMicro(), q.End.UnixMicro())
	if q.Owner != nil {
		c.add("owner = %s", *q.Owner)
	}
	from := fmt.Sprintf(`SELECT %s state, status, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents FROM orders WHERE %s`, dimensions, c)
	names := make([]string, len(q.By))
	for n := range q.By {
		names[n] = fmt.Sprintf("d%d", n+1)
	}
	return q.page(from, names, c)
}

// page groups what is selected, and bounds it.
func (q UsageQuery) page(from string, names []string, c *clauses) (statement string, args []any) {
	if len(names) == 0 {
		return fmt.Sprintf(`SELECT %s FROM (%s) AS chosen HAVING COUNT(*) > 0`, sums, from), c.args
	}
	list := strings.Join(names, ", ")
	c.all = []string{"TRUE"}
	if q.After != nil {
		values := make([]any, len(q.After))
		for n, d := range q.By {
			if values[n] = q.After[n]; d == ByDay {
				values[n] = dayNumber(q.After[n])
			}
		}
		c.add("("+list+") > ("+strings.TrimSuffix(strings.Repeat("%s, ", len(values)), ", ")+")", values...)
	}
	where := c.String()
	c.all = nil
	c.add("%s", q.Most)
	return fmt.Sprintf(`SELECT %s, %s FROM (%s) AS chosen WHERE %s GROUP BY %s ORDER BY %s LIMIT %s`, list, sums, from, where, list, list, c), c.args
}

// dated writes the days of a row as dates.
func (u Usage) dated(by []Dimension) Usage {
	for n, d := range by {
		if day := int64(0); d == ByDay {
			_, _ = fmt.Sscan(u.Dimensions[n], &day) // the book wrote it
			u.Dimensions[n] = time.UnixMicro(day * microsecondsOfDay).UTC().Format(time.DateOnly)
		}
	}
	return u
}

// dayNumber is a date as the book counts days.
func dayNumber(date string) string {
	day, _ := time.Parse(time.DateOnly, date) // a page token has what was answered
	return fmt.Sprint(day.UnixMicro() / microsecondsOfDay)
}
