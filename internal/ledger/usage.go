package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dimension is a property of orders by which usage is grouped.
type Dimension int

// The dimensions of usage.
const (
	ByDay Dimension = iota // UTC
	ByOwner
	ByCaller
	ByModel
	ByLabel
)

// microsecondsOfDay is the length of a day in microseconds. The ledger identifies a day by its number, counted from the Unix
// epoch.
const microsecondsOfDay = int64(24 * time.Hour / time.Microsecond)

// dimensions contains the SQL expression for each dimension. The placeholder {bytes} selects a bytewise comparison, so that
// pages have a stable order.
var dimensions = map[Dimension]string{
	ByDay: fmt.Sprintf("CAST(start_time / %d AS TEXT) {bytes}", microsecondsOfDay), ByOwner: "owner {bytes}", ByCaller: "caller {bytes}", ByModel: "model_id {bytes}", ByLabel: "label {bytes}",
}

// Usage contains the totals for one group of orders. The orders in a group have equal values in all requested dimensions.
type Usage struct {
	// Dimensions are the values of the requested dimensions, in the requested order. A day has the form 2026-11-22.
	Dimensions []string
	// Orders is the number of placed orders. Failed is the number of placed orders that failed or were refunded. Unknown is the
	// number of orders whose outcome is unknown.
	Orders, Failed, Unknown int64
	// CostCents includes refunded cents. The other amounts have the same meaning as in [lifecycle.Money].
	CostCents, RefundedCents, ReservedCents, UnconfirmedCents int64
}

// UsageQuery selects usage.
type UsageQuery struct {
	// Owner is the owner of the orders. Nil means all owners.
	Owner *string
	// Start and End limit the times at which the orders were placed. Start is inclusive, and End is exclusive.
	Start, End time.Time
	// By contains the dimensions by which orders are grouped. If one of them is [ByLabel], LabelName is the name of the label.
	By        []Dimension
	LabelName string
	// After contains the dimension values of the last row of the previous page. It is nil for the first page. Most is the
	// maximum number of rows.
	After []string
	Most  int
}

// counts contains the SQL columns for the amounts of one order. The columns of rollups have the same names.
const counts = `CASE WHEN state = {placed} THEN 1 ELSE 0 END AS orders, CASE WHEN state = {placed} AND status IN ({failed}, {refunded}) THEN 1 ELSE 0 END AS failed,
	CASE WHEN state = {open} THEN 1 ELSE 0 END AS unknown, COALESCE(cost_cents, 0) AS cost_cents, refunded_cents, reserved_cents, unconfirmed_cents`

// sums contains the SQL columns for the totals of a group of orders.
const sums = `CAST(SUM(orders) AS BIGINT), CAST(SUM(failed) AS BIGINT), CAST(SUM(unknown) AS BIGINT),
	CAST(SUM(cost_cents) AS BIGINT), CAST(SUM(refunded_cents) AS BIGINT), CAST(SUM(reserved_cents) AS BIGINT), CAST(SUM(unconfirmed_cents) AS BIGINT)`

// Usage returns totals of orders and money, sorted by dimensions. Charges and refunds are attributed to the time when their
// order was placed, even if they are recorded later.
func (l *Ledger) Usage(ctx context.Context, q UsageQuery) ([]Usage, error) {
	statement, args := q.statement()
	return askList(ctx, l, q.scanUsageRow, statement, args...)
}

// scanUsageRow reads a row, and converts day numbers to dates.
func (q UsageQuery) scanUsageRow(row scanner, u *Usage) error {
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

// statement returns the query for one page of rows. The column d0 is constant, so that a query without dimensions can also be
// grouped.
func (q UsageQuery) statement() (statement string, args []any) {
	names, after := []string{"d0"}, []any{0}
	for _, d := range q.By {
		names = append(names, dimensions[d])
	}
	for n, value := range q.After {
		if q.By[n] == ByDay {
			value = dayNumber(value)
		}
		after = append(after, value)
	}
	c, list := &clauses{}, strings.Join(names, ", ")
	from := q.amountsQuery(c)
	if len(after) > 1 {
		c.addCondition("("+list+") > (%s"+strings.Repeat(", %s", len(q.After))+")", after...)
	}
	c.addCondition("TRUE GROUP BY "+list+" HAVING SUM(orders) + SUM(unknown) > 0 ORDER BY "+list+" LIMIT %s", q.Most)
	return fmt.Sprintf(`SELECT %s, %s FROM (%s) AS chosen WHERE %s`, list, sums, from, c), c.args
}

// amountsQuery returns the query that reads the amounts. It combines the rollups of complete days, the placed orders of
// incomplete days, and the orders whose outcome is unknown. A query by label reads only the orders table, because rollups have
// no labels.
func (q UsageQuery) amountsQuery(c *clauses) string {
	start, end := max(0, q.Start.UnixMicro()), min(q.End.UnixMicro(), endOfTime.UnixMicro())
	if slices.Contains(q.By, ByLabel) {
		return q.ordersQuery(c, "state <> {refused}", "order_time", start, end)
	}
	first := min((start+microsecondsOfDay-1)/microsecondsOfDay*microsecondsOfDay, end)
	last := max(first, end/microsecondsOfDay*microsecondsOfDay)
	all := []string{
		q.ordersQuery(c, "state = {open} AND retry_time >= 0", "order_time + 0", start, end),
		`SELECT 0 AS d0, start_time, owner, caller, model_id, '', orders, failed, 0, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents FROM rollups WHERE ` + q.addTimeRange(c, "TRUE", "start_time", first, last),
	}
	for _, part := range [][2]int64{{start, first}, {last, end}} {
		if part[0] < part[1] {
			all = append(all, q.ordersQuery(c, "state = {placed}", "order_time", part[0], part[1]))
		}
	}
	return strings.Join(all, " UNION ALL ")
}

// endOfTime is later than the time of any order.
var endOfTime = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// ordersQuery returns a query for the amounts of each order that matches the SQL condition and was written from start
// (inclusive) to end (exclusive). timeExpr is the SQL expression for the time when an order was written.
func (q UsageQuery) ordersQuery(c *clauses, condition, timeExpr string, start, end int64) string {
	label := "''"
	if slices.Contains(q.By, ByLabel) {
		label = c.bind("COALESCE((SELECT value FROM labels WHERE order_id = orders.id AND name = %s), '')", q.LabelName)
	}
	return `SELECT 0 AS d0, order_time AS start_time, owner, caller, model_id, ` + label + ` AS label, ` + counts + ` FROM orders WHERE ` + q.addTimeRange(c, condition, timeExpr, start, end)
}

// addTimeRange adds a time range, from start (inclusive) to end (exclusive), to an SQL condition. timeExpr is the SQL
// expression for the time. If the query has an owner, the condition also selects only the rows of that owner.
func (q UsageQuery) addTimeRange(c *clauses, condition, timeExpr string, start, end int64) string {
	condition = c.bind(condition+" AND "+timeExpr+" >= %s AND "+timeExpr+" < %s", start, end)
	if q.Owner != nil {
		condition += c.bind(" AND owner = %s", *q.Owner)
	}
	return condition
}

// date converts a day number to a date such as 2026-11-22.
func date(number string) (string, error) {
	day, err := strconv.ParseInt(number, 10, 64)
	return time.UnixMicro(day * microsecondsOfDay).UTC().Format(time.DateOnly), err
}

// dayNumber converts a date to the number of days since 1970-01-01.
func dayNumber(date string) string {
	day, _ := time.Parse(time.DateOnly, date) // cannot fail, because page tokens contain valid dates
	return fmt.Sprint(day.UnixMicro() / microsecondsOfDay)
}
