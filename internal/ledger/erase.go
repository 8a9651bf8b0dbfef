package ledger

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Erase erases what names content of orders whose outcome is known: labels, records and events, and has the copies of their results deleted. What guards against
// a second charge stays, and so do money and its journal, and that an owner is to be told of an end. It gives how many
// were not erased before.
func (l *Ledger) Erase(ctx context.Context, all ...Order) (erased int64, err error) {
	return l.EraseFor(ctx, nil, all...)
}

// EraseFor is [Ledger.Erase] for who has wanted it, and says which orders: the audit has that, how many were not erased
// before, and their ids by owner.
func (l *Ledger) EraseFor(ctx context.Context, wanted *Act, all ...Order) (erased int64, err error) {
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
	if err != nil {
		return 0, err
	}
	return erased, nil
}

// idsByOwner returns the ids of orders by their owners.
func idsByOwner(all []Order) map[string][]string {
	ids := map[string][]string{}
	for _, o := range all {
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

// erasable chooses the orders of an owner of an age that are over and not erased, by the index of the same condition. An order
// that can't be erased yet is not read.
const erasable = `owner = $1 AND erased = 0 AND (state = {refused} OR state = {placed} AND settled = 1) AND order_time <= (SELECT {now}) - $2 ORDER BY order_time, id LIMIT $3`

// Retain erases, in steps, the orders that are over and older than their owners want, of the owners that this process knows. It
// returns the number of orders, after an error too.
func (l *Ledger) Retain(ctx context.Context) (erased int64, err error) {
	for owner, team := range l.teams() {
		for left := team.Retention > 0; left && err == nil; {
			var some int64
			some, left, err = l.retain(ctx, owner, team.Retention)
			erased += some
		}
	}
	return erased, err
}

// retain erases orders of an owner in one step, and reports whether more may be left.
func (l *Ledger) retain(ctx context.Context, owner string, age time.Duration) (erased int64, left bool, err error) {
	var all []Order
	err = l.reading(ctx, func(tx *transaction) (err error) {
		all, err = l.orders(tx, "", erasable, owner, age.Microseconds(), stepRows)
		return err
	})
	if err == nil {
		erased, err = l.Erase(ctx, all...)
	}
	return erased, len(all) == stepRows, err
}

// IsOpen reports whether it is not known yet what has become of the order.
func (o Order) IsOpen() bool { return o.State == lifecycle.Open }
