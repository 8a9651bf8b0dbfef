package ledger

import (
	"context"
	"time"
)

// MovementKind is the kind of a line in the journal.
type MovementKind int

// The kinds of movements.
const (
	Reserve MovementKind = 1 + iota // amount that is reserved for an order
	Charge                          // charge that the catalog reported; a negative amount reverses an earlier charge
	Refund                          // refund that the catalog reported; a negative amount reverses an earlier refund
	Release                         // amount that is no longer reserved
	Resolve                         // operator's decision; has no amount
)

// String returns the name of the kind for display.
func (k MovementKind) String() string {
	return [...]string{"none", "reserve", "charge", "refund", "release", "resolve"}[k]
}

// Movement is a line of the journal. Triggers on the orders table write the journal, so no program can change an order's
// amounts of money without a line in the journal.
type Movement struct {
	Order string
	// Number is the number of the movement within the order, starting at 1.
	Number int64
	Kind   MovementKind
	Cents  int64
	Time   time.Time
	// Actor is the name of the operator. Empty means that Easel recorded the movement automatically.
	Actor string
}

// Movements returns the journal lines of an order, oldest first.
func (l *Ledger) Movements(ctx context.Context, order string) ([]Movement, error) {
	return askList(ctx, l, func(row scanner, m *Movement) error {
		return row.Scan(&m.Order, &m.Number, &m.Kind, &m.Cents, moment{&m.Time}, &m.Actor)
	}, `SELECT order_id, number, kind, cents, move_time, actor FROM movements WHERE order_id = $1 ORDER BY number`, order)
}

// noteResolution writes the journal line for an operator's decision about an order.
func noteResolution(tx *transaction, id, actor string) error {
	_, err := tx.exec(`INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
		VALUES ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = $1), {resolve}, 0, {now}, $2)`, id, actor)
	return err
}
