package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Erase erases what names content of orders whose outcome is known: labels, records and events, and has the copies of their results deleted. What guards against
// a second charge stays, and so do money and its journal, and that an owner is to be told of an end. It gives how many
// were not erased before. After [ErrStillRead] they are, and the next call cleans the file.
func (l *Ledger) Erase(ctx context.Context, all ...Order) (erased int64, err error) {
	return l.EraseFor(ctx, nil, all...)
}

// mostErasedNamed bounds the orders that a line of the audit names.
const mostErasedNamed = 200

// EraseFor is [Ledger.Erase] for who has wanted it, and says which orders: the audit has that, how many were not erased
// before, and their ids by owner.
func (l *Ledger) EraseFor(ctx context.Context, wanted *Act, all ...Order) (erased int64, err error) {
	if erased, err = l.erase(ctx, wanted, all); err != nil {
		return 0, err
	}
	return erased, l.clean(ctx)
}

// erase does the work of [Ledger.EraseFor] except to clean the file.
func (l *Ledger) erase(ctx context.Context, wanted *Act, all []Order) (erased int64, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	err = l.tx(ctx, func(tx *transaction) error {
		now, err := erase(tx, all)
		if erased = int64(len(now)); err != nil || wanted == nil || erased == 0 {
			return err
		}
		act := *wanted
		act.Became = struct {
			Wanted any                 `json:"wanted"`
			Erased int64               `json:"erased"`
			Orders map[string][]string `json:"orders"` // by owner
		}{wanted.Became, erased, idsByOwner(now)}
		return tx.audit(act)
	})
	return erased, err
}

// idsByOwner are the ids of orders by their owners, as many as a line of the audit names.
func idsByOwner(all []Order) map[string][]string {
	ids := map[string][]string{}
	for _, o := range all[:min(len(all), mostErasedNamed)] {
		ids[o.Owner] = append(ids[o.Owner], o.ID)
	}
	return ids
}

// erase gives the ids and the owners of those orders that were not erased before.
func erase(tx *transaction, all []Order) (erased []Order, err error) {
	ids, owned := []string{}, map[string][]Order{}
	for _, o := range all {
		if o.IsOpen() { // what is to be sent again is needed
			continue
		}
		ids = append(ids, o.ID)
		owned[o.Owner] = append(owned[o.Owner], o)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	list := asList(ids)
	// Whoever writes an event of one of them has its row too: nothing is written of it meanwhile.
	erased, err = collect(tx, func(row scanner, o *Order) error { return row.Scan(&o.ID, &o.Owner) },
		`UPDATE orders SET record = NULL, problem = '', erased = 1 WHERE erased = 0 AND id {in ids} RETURNING id, owner`, list)
	if err != nil {
		return nil, err
	}
	if _, err := tx.exec(`DELETE FROM labels WHERE order_id {in ids}`, list); err != nil {
		return nil, err
	}
	if err := eraseContents(tx, all); err != nil {
		return nil, err
	}
	for owner, orders := range owned {
		if err := eraseEvents(tx, owner, orders); err != nil {
			return nil, err
		}
	}
	return erased, nil
}

// eraseContents has the copies of results deleted.
func eraseContents(tx *transaction, all []Order) error {
	generations := []string{}
	for _, o := range all {
		if o.Generation != "" {
			generations = append(generations, o.Generation)
		}
	}
	if len(generations) == 0 {
		return nil
	}
	return doomContents(tx, generations...)
}

// eraseEvents deletes the events of orders of one owner. What it has not been told yet stays, without what is erased.
func eraseEvents(tx *transaction, owner string, orders []Order) error {
	placed, subjects := map[string]Order{}, []string{}
	for _, o := range orders {
		if o.Generation != "" {
			placed[o.Generation], subjects = o, append(subjects, o.Generation)
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	told := tx.l.outbox != nil // else nobody ever is
	if told {
		if err := erasePending(tx, owner, asList(subjects), placed); err != nil {
			return err
		}
	}
	_, err := tx.exec(`DELETE FROM events WHERE subject {in ids} AND owner = $2 AND (state <> {pending} OR $3 = 0)`, asList(subjects), owner, number(told))
	return err
}

// erasePending writes the events anew that an owner has not been told yet.
func erasePending(tx *transaction, owner, subjects string, placed map[string]Order) error {
	pending, err := collect(tx, scanEvent, selectEvents+`subject {in ids} AND owner = $2 AND state = {pending}`, subjects, owner)
	for _, e := range pending {
		if err == nil {
			_, err = tx.exec(`UPDATE events SET data = $1 WHERE id = $2`, tx.l.outbox.Generation(placed[e.Subject].asErased(e.Type), nil), e.ID)
		}
	}
	return err
}

// asErased is an order of which an event of some type tells, without what is erased.
func (o Order) asErased(eventType string) Order {
	o = o.as(eventType)
	o.Labels, o.Record, o.Erased = nil, "", true
	return o
}

// Retention erases what names content of old orders of owners who want that. It walks through the orders of an owner once.
// Later walks read only the orders that are old enough since, and the orders that earlier walks had to leave.
type Retention struct {
	Ledger *Ledger
	// Rest is the time between two walks through the orders of an owner.
	Rest time.Duration

	walks map[string]*walk // the key is the owner
}

// walk is a walk through the orders of an owner.
type walk struct {
	at   Position  // position of the last order that was read
	left []string  // ids of earlier orders that were not settled
	next time.Time // when the next walk is due
}

// Run walks through the orders of all owners whose walk is due, and erases the settled orders that are older than their owners
// want. It returns the number of orders that it has read.
func (r *Retention) Run(ctx context.Context) (read int, err error) {
	if r.walks == nil {
		r.walks = map[string]*walk{}
	}
	for owner, team := range r.Ledger.teams() {
		if r.walks[owner] == nil {
			r.walks[owner] = &walk{}
		}
		if w := r.walks[owner]; team.Retention > 0 && err == nil && !time.Now().Before(w.next) {
			some := 0
			if some, err = r.walk(ctx, w, owner, team.Retention); err == nil {
				w.next = time.Now().Add(r.Rest)
			}
			read += some
		}
	}
	return read, err
}

// walk reads the orders that earlier walks had to leave, and then the orders that are old enough since.
func (r *Retention) walk(ctx context.Context, w *walk, owner string, age time.Duration) (read int, err error) {
	earlier := w.left
	w.left = nil
	for some := range slices.Chunk(earlier, stepRows) {
		if _, failed := r.step(ctx, w, `id {in ids}`, asList(some)); failed != nil {
			w.left, err = append(w.left, some...), failed
		}
	}
	read = len(earlier)
	for last := stepRows; last == stepRows && err == nil; read += last {
		var all []Order
		if all, err = r.step(ctx, w, `owner = $1 AND (order_time, id) > ($2, $3) AND order_time <= (SELECT {now}) - $4 ORDER BY order_time, id LIMIT $5`,
			owner, micros(w.at.Time), w.at.ID, age.Microseconds(), stepRows); len(all) > 0 {
			w.at = Position{all[len(all)-1].Time, all[len(all)-1].ID}
		}
		last = len(all)
	}
	if err == nil {
		err = r.Ledger.clean(ctx)
	}
	if errors.Is(err, ErrStillRead) { // the next walk tries again
		err = nil
	}
	return read, err
}

// step reads the orders that a condition chooses, and erases those that are over. The walk keeps the others.
func (r *Retention) step(ctx context.Context, w *walk, condition string, args ...any) (all []Order, err error) {
	err = r.Ledger.reading(ctx, func(tx *transaction) (err error) {
		all, err = r.Ledger.orders(tx, "", condition, args...)
		return err
	})
	var over []Order
	var left []string
	for _, o := range all {
		switch {
		case !o.isOver():
			left = append(left, o.ID)
		case !o.Erased:
			over = append(over, o)
		}
	}
	if err == nil {
		_, err = r.Ledger.erase(ctx, nil, over)
	}
	if err != nil {
		return nil, err
	}
	w.left = append(w.left, left...)
	return all, nil
}

// IsOpen reports whether it is not known yet what has become of the order.
func (o Order) IsOpen() bool { return o.State == lifecycle.Open }

// isOver reports whether the order has an outcome, and no money can move any more.
func (o Order) isOver() bool { return !o.IsOpen() && !o.mayMove() }

// mayMove reports whether the order has placed a generation whose money may still move.
func (o Order) mayMove() bool { return o.State == lifecycle.Placed && !o.Settled }
