package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Difference is where the book does not say what its journal adds up to.
type Difference struct {
	// Order is the order, Owner whose it is.
	Order, Owner string
	// Period and Start are the window of a budget.
	Period string
	Start  time.Time
	// Amount names what differs, Book is what the book has of it and Journal what it should have.
	Amount        string
	Book, Journal int64
}

// String is a line for people.
func (d Difference) String() string {
	where := "order " + d.Order
	if d.Period != "" {
		where = fmt.Sprintf("the %s from %s", d.Period, d.Start.Format(time.DateOnly))
	}
	if d.Owner != "" {
		where += " of " + d.Owner
	}
	return fmt.Sprintf("%s: %s is %d, and the journal says %d", where, d.Amount, d.Book, d.Journal)
}

// Verified is what was looked at.
type Verified struct{ Orders, Budgets, Differences int }

// verifyAtOnce is how many orders are read by one statement.
const verifyAtOnce = 2_000

// Verify adds the journal up, beside processes that use the book, and says each difference to the orders and the budgets.
// looked is told now and then how many orders it has been. A book in memory has forgotten orders that its budgets count:
// of such a one the orders alone are looked at.
func Verify(ctx context.Context, url string, differs func(Difference), looked func(orders int)) (Verified, error) {
	l, err := OpenBeside(ctx, url)
	if err != nil {
		return Verified{}, err
	}
	defer func() { _ = l.Close() }() // nothing was written
	return l.Verify(ctx, differs, looked)
}

// OpenBeside opens a ledger beside the servers that use it, to be read alone.
func OpenBeside(ctx context.Context, url string) (*Ledger, error) {
	at, err := durable(url)
	if err != nil {
		return nil, err
	}
	if err := at.exists(); err != nil {
		return nil, err
	}
	db, err := at.open(cmp.Or(at.migrating, at.reading), 1, nil)
	if err != nil {
		return nil, unusable(err)
	}
	l := &Ledger{dialect: at.dialect, window: ResendWindow, kind: Kind(url), reads: db}
	if err := l.isCurrent(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Verify is [Verify] for an open ledger.
func (l *Ledger) Verify(ctx context.Context, differs func(Difference), looked func(orders int)) (Verified, error) {
	tx, err := l.reads.BeginTx(ctx, l.dialect.snapshot)
	if err != nil {
		return Verified{}, unusable(err)
	}
	defer func() { _ = tx.Rollback() }() // it has read alone
	v := &verification{
		tx: &transaction{querier: tx, pool: l.reads, ctx: ctx, l: l}, l: l, budgeted: totals{}, reported: totals{},
		differs: differs, looked: looked,
	}
	for _, step := range []func() error{v.orders, v.orphans, v.budgets, v.reports} {
		if err := step(); err != nil {
			return v.Verified, unusable(err)
		}
	}
	return v.Verified, nil
}

// verification is one look at the whole book.
type verification struct {
	Verified

	tx       *transaction
	l        *Ledger
	budgeted totals // what the orders add up to
	reported totals // and those that are placed, by caller and model
	differs  func(Difference)
	looked   func(orders int)
}

// window is that of a budget, and of a report by caller and model.
type window struct {
	owner, period string
	start         int64
	caller, model string
}

func compareWindows(a, b window) int {
	return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.period, b.period), cmp.Compare(a.start, b.start), cmp.Compare(a.caller, b.caller), cmp.Compare(a.model, b.model))
}

// amounts are what a budget or a report has of its orders. A budget has no failures, and Spent of a report is what they have
// cost.
type amounts struct{ Orders, Failed, Spent, Reserved, Unconfirmed, Refunded int64 }

// totals are amounts by window.
type totals map[window]amounts

func (t totals) add(at window, o amounts) {
	a := t[at]
	t[at] = amounts{a.Orders + o.Orders, a.Failed + o.Failed, a.Spent + o.Spent, a.Reserved + o.Reserved, a.Unconfirmed + o.Unconfirmed, a.Refunded + o.Refunded}
}

// journaled is an order with what its journal adds up to.
type journaled struct {
	id, owner            string
	caller, model        string
	written              int64
	placed, failed       int64
	money                lifecycle.Money
	held, charge, refund int64 // by its lines
}

// orders compares each order with its lines.
func (v *verification) orders() error {
	last := ""
	for {
		some, err := collect(v.tx, scanJournaled, `SELECT o.id, o.owner, o.caller, o.model_id, o.order_time, CASE WHEN o.state = {placed} THEN 1 ELSE 0 END, CASE WHEN o.state = {placed} AND o.status IN ({failed}, {refunded}) THEN 1 ELSE 0 END, o.reserved_cents, o.cost_cents, o.refunded_cents, o.unconfirmed_cents,
			CAST(COALESCE(SUM(CASE m.kind WHEN {reserve} THEN m.cents WHEN {release} THEN -m.cents END), 0) AS BIGINT),
			CAST(COALESCE(SUM(CASE m.kind WHEN {charge} THEN m.cents END), 0) AS BIGINT), CAST(COALESCE(SUM(CASE m.kind WHEN {refund} THEN m.cents END), 0) AS BIGINT)
			FROM (SELECT id, owner, caller, model_id, order_time, state, status, reserved_cents, cost_cents, refunded_cents, unconfirmed_cents FROM orders WHERE id > $1 ORDER BY id LIMIT $2) AS o
			LEFT JOIN movements AS m ON m.order_id = o.id
			GROUP BY o.id, o.owner, o.caller, o.model_id, o.order_time, o.state, o.status, o.reserved_cents, o.cost_cents, o.refunded_cents, o.unconfirmed_cents ORDER BY o.id`, last, verifyAtOnce)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, o := range some {
			v.order(o)
		}
		last = some[len(some)-1].id
		v.Orders += len(some)
		v.looked(v.Orders)
	}
}

func scanJournaled(row scanner, o *journaled) error {
	return row.Scan(&o.id, &o.owner, &o.caller, &o.model, &o.written, &o.placed, &o.failed, &o.money.ReservedCents, &o.money.CostCents, &o.money.RefundedCents, &o.money.UnconfirmedCents,
		&o.held, &o.charge, &o.refund)
}

// order compares an order with its lines, and adds it to its windows.
func (v *verification) order(o journaled) {
	v.compare(o)
	budgeted := amounts{o.placed, 0, o.money.SpentCents(), o.money.ReservedCents, o.money.UnconfirmedCents, o.money.RefundedCents}
	reported := budgeted
	reported.Failed, reported.Spent = o.failed, o.cost()
	for _, b := range (Limits{}).periods(fromMicros(o.written)) {
		at := window{owner: o.owner, period: b.Period, start: b.Start.UnixMicro()}
		v.budgeted.add(at, budgeted)
		if at.caller, at.model = o.caller, o.model; o.placed == 1 {
			v.reported.add(at, reported)
		}
	}
}

func (o journaled) cost() int64 {
	if o.money.CostCents == nil {
		return 0
	}
	return *o.money.CostCents
}

// compare compares an order with its lines.
func (v *verification) compare(o journaled) {
	cost, d := o.cost(), Difference{Order: o.id, Owner: o.owner}
	v.same(d, "what it holds", o.money.ReservedCents+max(0, o.money.UnconfirmedCents-cost), o.held)
	v.same(d, "what it has cost", cost, o.charge)
	v.same(d, "what came back", o.money.RefundedCents, o.refund)
}

// same reports an amount that is not the same in the book and in the journal.
func (v *verification) same(d Difference, amount string, book, journal int64) {
	if book != journal {
		d.Amount, d.Book, d.Journal = amount, book, journal
		v.Differences++
		v.differs(d)
	}
}

// orphans are lines whose order is gone: of one that was refused nothing is held or spent.
func (v *verification) orphans() error {
	all, err := collect(v.tx, func(row scanner, d *Difference) error { return row.Scan(&d.Order, &d.Journal) },
		`SELECT order_id, CAST(SUM(CASE kind WHEN {reserve} THEN cents WHEN {release} THEN -cents WHEN {charge} THEN cents ELSE 0 END) AS BIGINT) AS held
		FROM movements WHERE NOT EXISTS (SELECT 1 FROM orders WHERE id = order_id) GROUP BY order_id
		HAVING SUM(CASE kind WHEN {reserve} THEN cents WHEN {release} THEN -cents WHEN {charge} THEN cents ELSE 0 END) <> 0`)
	for _, d := range all {
		v.same(d, "what it holds and has cost, being gone,", 0, d.Journal)
	}
	return err
}

// budgets compares the budgets with the orders of their windows.
func (v *verification) budgets() (err error) {
	v.Budgets, err = v.windows(v.budgeted, `SELECT owner, period, start_time, '', '', orders, 0, spent_cents, reserved_cents, unconfirmed_cents, refunded_cents FROM budgets`)
	return err
}

// reports compares what is reported with the orders.
func (v *verification) reports() error {
	_, err := v.windows(v.reported, `SELECT owner, period, start_time, caller, model_id, orders, failed, cost_cents, reserved_cents, unconfirmed_cents, refunded_cents FROM rollups`)
	return err
}

// windows compares what stands in the book of windows with what their orders add up to, and gives how many are there. A book
// in memory has windows of orders that it has forgotten.
func (v *verification) windows(orders totals, query string) (count int, err error) {
	type row struct {
		window
		amounts
	}
	if !v.l.IsDurable() {
		return 0, nil
	}
	all, err := collect(v.tx, func(row scanner, r *row) error {
		return row.Scan(&r.owner, &r.period, &r.start, &r.caller, &r.model, &r.Orders, &r.Failed, &r.Spent, &r.Reserved, &r.Unconfirmed, &r.Refunded)
	}, query)
	for _, r := range all {
		v.window(r.window, r.amounts, orders[r.window])
		delete(orders, r.window)
	}
	for _, at := range slices.SortedFunc(maps.Keys(orders), compareWindows) { // which are not in the book
		v.window(at, amounts{}, orders[at])
	}
	return len(all), err
}

// window compares what stands in the book of a window with what its orders add up to.
func (v *verification) window(at window, book, orders amounts) {
	d, where := Difference{Owner: at.owner, Period: at.period, Start: fromMicros(at.start)}, ""
	if at.caller+at.model != "" {
		where = " in the reports of " + at.caller + " with " + at.model
	}
	v.same(d, "the number of orders"+where, book.Orders, orders.Orders)
	v.same(d, "what is spent"+where, book.Spent, orders.Spent)
	v.same(d, "what is reserved"+where, book.Reserved, orders.Reserved)
	v.same(d, "what is unconfirmed"+where, book.Unconfirmed, orders.Unconfirmed)
	v.same(d, "what came back"+where, book.Refunded, orders.Refunded)
	v.same(d, "the number of failures"+where, book.Failed, orders.Failed)
}
