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
	if len(all) == 0 {
		return 0, l.clean(ctx)
	}
	err = l.inTransaction(ctx, func(tx *transaction) error {
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
	l.erasures.Add(1)
	if err != nil {
		return 0, err
	}
	return erased, l.clean(ctx)
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

// Retention erases what names content of old orders of owners who want that. It walks through their orders once, and
// then only through those that have come of age since, and from the first on that it had to leave.
type Retention struct {
	Ledger *Ledger
	// Rest is how long nothing is looked at of an owner at the end of its orders.
	Rest time.Duration

	walks map[string]walk // by owner
}

// walk is how far a walk through the orders of an owner is, and before which of them the next one begins: nil is here.
type walk struct {
	at   Position
	next *Position
	from time.Time // when it begins
}

// Step looks at the next orders of owners that are older than they want, most of one owner at once, and erases those whose
// money can't move any more. It gives the most that it has looked at of one.
func (r *Retention) Step(ctx context.Context, most int) (looked int, err error) {
	for owner, team := range r.Ledger.teams() {
		if team.Retention == 0 || time.Now().Before(r.walks[owner].from) {
			continue
		}
		n, err := r.step(ctx, owner, team.Retention, most)
		if err != nil {
			return 0, err
		}
		looked = max(looked, n)
	}
	return looked, nil
}

func (r *Retention) step(ctx context.Context, owner string, age time.Duration, most int) (looked int, err error) {
	if r.walks == nil {
		r.walks = map[string]walk{}
	}
	w, all := r.walks[owner], []Order(nil)
	err = r.Ledger.reading(ctx, func(tx *transaction) (err error) {
		all, err = r.Ledger.orders(tx, "", `owner = $1 AND (order_time, id) > ($2, $3) AND order_time <= {now} - $4 ORDER BY order_time, id LIMIT $5`,
			owner, micros(w.at.Time), w.at.ID, age.Microseconds(), most)
		return err
	})
	if err == nil {
		_, err = r.Ledger.Erase(ctx, slices.DeleteFunc(slices.Clone(all), func(o Order) bool { return o.Erased || !o.isOver() })...)
	}
	if err != nil && !errors.Is(err, ErrStillRead) {
		return 0, err
	}
	for _, o := range all {
		if before := w.at; w.next == nil && !o.isOver() {
			w.next = &before
		}
		w.at = Position{o.Time, o.ID}
	}
	if len(all) < most {
		if w.next != nil {
			w = walk{at: *w.next}
		}
		w.from = time.Now().Add(r.Rest)
	}
	r.walks[owner] = w
	return len(all), nil
}

// IsOpen reports whether it is not known yet what has become of the order.
func (o Order) IsOpen() bool { return o.State == lifecycle.Open }

// isOver reports whether the order has an outcome, and no money can move any more.
func (o Order) isOver() bool { return !o.IsOpen() && !o.mayMove() }

// mayMove reports whether the order has placed a generation whose money may still move.
func (o Order) mayMove() bool { return o.State == lifecycle.Placed && !o.Settled }
