package ledger

import (
	"context"
	"time"
)

// MovementKind is what a line of the journal does with money.
type MovementKind int

// The kinds of movements.
const (
	Reserve MovementKind = 1 + iota // held for an order
	Charge                          // told by the catalog; below 0 it takes a charge back
	Refund                          // told by the catalog; below 0 it takes a refund back
	Release                         // held no more
	Resolve                         // an operator's word, of no money itself
)

// String names the kind for people.
func (k MovementKind) String() string {
	return [...]string{"none", "reserve", "charge", "refund", "release", "resolve"}[k]
}

// Movement is a line of the journal. The rows of orders write those of money themselves, by triggers of the database, in
// the transaction that moves it: so no program can move money without a line, the one of the release before neither.
type Movement struct {
	Order string
	// Number counts the movements of the order, from 1.
	Number int64
	Kind   MovementKind
	Cents  int64
	Time   time.Time
	// Actor is who has moved it; "" is Easel, by what the catalog has said.
	Actor string
}

// Movements are the lines of an order, from the first.
func (l *Ledger) Movements(ctx context.Context, order string) ([]Movement, error) {
	return ask(ctx, l, func(row scanner, m *Movement) error {
		return row.Scan(&m.Order, &m.Number, &m.Kind, &m.Cents, moment{&m.Time}, &m.Actor)
	}, `SELECT order_id, number, kind, cents, move_time, actor FROM movements WHERE order_id = $1 ORDER BY number`, order)
}

// noteResolution writes the line of an operator's word about an order.
func noteResolution(tx *transaction, id, actor string) error {
	_, err := tx.exec(`INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
		VALUES ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = $1), {resolve}, 0, {now}, $2)`, id, actor)
	return err
}
