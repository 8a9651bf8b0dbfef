package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Erase erases the content of orders: records, events, and labels that have no budget. Pending events are still delivered, but
// without the erased content. Erase also marks the copies of the orders' results for deletion. It does not erase amounts of
// money, the journal, or the data that prevents a second charge. It skips orders whose outcome is unknown. It returns the
// number of erased orders, without the orders that were erased earlier.
func (l *Ledger) Erase(ctx context.Context, all ...Order) (erased int64, err error) {
	return l.EraseFor(ctx, nil, all...)
}

// EraseFor is like [Ledger.Erase], but also writes an operator's action to the audit log, together with the IDs of the erased
// orders. If operatorAct is nil, or if all the orders were erased earlier, it writes nothing to the audit log.
func (l *Ledger) EraseFor(ctx context.Context, operatorAct *Act, all ...Order) (erased int64, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	err = l.runTx(ctx, func(tx *transaction) error {
		now, err := eraseContent(tx, all)
		if erased = int64(len(now)); err != nil || operatorAct == nil || erased == 0 {
			return err
		}
		act := *operatorAct
		act.Became = struct {
			Wanted any                 `json:"wanted"`
			Erased int64               `json:"erased"`
			Orders map[string][]string `json:"orders"` // order IDs, keyed by owner
		}{operatorAct.Became, erased, idsByOwner(now)}
		return tx.addAuditLine(act)
	})
	if err != nil {
		return 0, err
	}
	return erased, nil
}

func idsByOwner(all []Order) map[string][]string {
	ids := map[string][]string{}
	for _, o := range all {
		ids[o.Owner] = append(ids[o.Owner], o.ID)
	}
	return ids
}

// eraseContent erases the content of orders, except open ones. It returns the ID and the owner of each order that it has
// erased, without the orders that were erased earlier.
func eraseContent(tx *transaction, all []Order) (erased []Order, err error) {
	ids, placed := []string{}, map[string]Order{}
	for _, o := range all {
		if o.IsOpen() { // keep the content of an open order, because a resend needs it
			continue
		}
		ids = append(ids, o.ID)
		if o.Generation != "" {
			placed[o.Generation] = o
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	list := asList(ids)
	// A transaction that writes an event about an order locks the order's row, so no event is added concurrently.
	erased, err = queryList(tx, func(row scanner, o *Order) error { return row.Scan(&o.ID, &o.Owner) },
		`UPDATE orders SET record = NULL, problem = '', erased = 1 WHERE erased = 0 AND id {in ids} RETURNING id, owner`, list)
	if err != nil {
		return nil, err
	}
	if _, err := tx.exec(`DELETE FROM labels WHERE order_id {in ids} AND budgeted = 0`, list); err != nil {
		return nil, err
	}
	if err := doomContents(tx, slices.Collect(maps.Keys(placed))...); err != nil {
		return nil, err
	}
	return erased, eraseEvents(tx, list, placed)
}

// ofErased is the condition for events about the orders with the given ids.
const ofErased = `(owner, subject) IN (SELECT owner, generation_id FROM orders WHERE id {in ids})`

// eraseEvents deletes events about orders. It keeps pending events, but removes the erased content from them. A ledger without
// an event configuration delivers no events, so its pending events are deleted too.
func eraseEvents(tx *transaction, ids string, placed map[string]Order) error {
	events := tx.l.events
	if events != nil {
		pending, err := queryList(tx, scanEvent, selectEvents+`state = {pending} AND `+ofErased, ids)
		for _, e := range pending {
			if err == nil {
				_, err = tx.exec(`UPDATE events SET data = $1 WHERE id = $2`, events.Generation(placed[e.Subject].erasedState(e.Type), nil), e.ID)
			}
		}
		if err != nil {
			return err
		}
	}
	_, err := tx.exec(`DELETE FROM events WHERE (state <> {pending} OR $2 = 0) AND `+ofErased, ids, boolNumber(events != nil))
	return err
}

// erasedState returns the order in the state that an event of the given type reports, but without its labels and record,
// because their erasure also applies to the event.
func (o Order) erasedState(eventType string) Order {
	o = o.stateAtEvent(eventType)
	o.Labels, o.Record, o.Erased = nil, "", true
	return o
}

// erasable is the condition for the orders to erase: orders of the owner $1 that have a final outcome, are not erased yet, and
// are at least $2 microseconds old. It selects at most $3 orders, oldest first. The query uses the index orders_erasable.
const erasable = `owner = $1 AND erased = 0 AND (state = {refused} OR state = {placed} AND settled = 1) AND order_time <= (SELECT {now}) - $2 ORDER BY order_time, id LIMIT $3`

// Retain erases the orders with a final outcome that are older than their owner's retention time. It covers only the owners in
// this process's configuration. It uses several transactions, and returns the number of erased orders even if it also returns
// an error.
func (l *Ledger) Retain(ctx context.Context) (erased int64, err error) {
	for owner, team := range l.teams() {
		for left := team.Retention > 0; left && err == nil; {
			var some int64
			some, left, err = l.eraseOldOrders(ctx, owner, team.Retention)
			erased += some
		}
	}
	return erased, err
}

// eraseOldOrders erases at most [stepRows] of the owner's orders that are older than age, and reports whether there may be
// more.
func (l *Ledger) eraseOldOrders(ctx context.Context, owner string, age time.Duration) (erased int64, left bool, err error) {
	var all []Order
	err = l.runRead(ctx, func(tx *transaction) (err error) {
		all, err = l.lockOrders(tx, "", erasable, owner, age.Microseconds(), stepRows)
		return err
	})
	if err == nil {
		erased, err = l.Erase(ctx, all...)
	}
	return erased, len(all) == stepRows, err
}

// IsOpen reports whether the outcome of the order is unknown.
func (o Order) IsOpen() bool { return o.State == lifecycle.Open }
