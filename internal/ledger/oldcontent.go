package ledger

import "context"

// ContentIsOld is the problem of a result that was not wanted when its generation ended: there was no store.
const ContentIsOld = "its generation ended before there was a store"

// walkedAtOnce are the orders that one look for such results goes through.
const walkedAtOnce = 500

// oldContent is an order that may have such a result.
type oldContent struct {
	Position

	generation, owner string
	isWanted          bool
}

func scanOldContent(row scanner, o *oldContent) error {
	at := int64(0)
	err := row.Scan(&o.ID, &at, &o.generation, &o.owner, &o.isWanted)
	o.Time = fromMicros(at)
	return err
}

// oldContents are the next orders after a position, each with whether its result is to be wanted.
const oldContents = `SELECT id, order_time, generation_id, owner, status = {succeeded} AND deleted = 0 AND gone = 0 AND erased = 0
	AND NOT EXISTS (SELECT 1 FROM contents WHERE contents.generation_id = orders.generation_id)
	FROM orders WHERE (order_time, id) > ($1, $2) AND state = {placed} AND namespace <> api_key ORDER BY order_time, id LIMIT $3`

// WantOldContents goes through some orders after a position, and wants the results copied, at most so many, of those that
// ended before there was a store. While others are to be copied it does nothing. It gives where to go on, and whether there
// is more.
func (l *Ledger) WantOldContents(ctx context.Context, after Position, most int) (next Position, more bool, err error) {
	err = l.inTransaction(inTurn(ctx, forRead, ""), func(tx *transaction) error {
		next, more = after, true
		due := 0
		if err := tx.row(`SELECT COUNT(*) FROM (SELECT 1 FROM contents WHERE state = {waiting} AND next_time <= (SELECT {now}) LIMIT 1) AS due`).Scan(&due); err != nil || due > 0 {
			return err
		}
		all, err := collect(tx, scanOldContent, oldContents, micros(after.Time), after.ID, walkedAtOnce)
		if err != nil {
			return err
		}
		more = len(all) == walkedAtOnce
		for n, o := range all {
			if next = o.Position; !o.isWanted {
				continue
			}
			if _, err := tx.exec(`INSERT INTO contents (generation_id, owner, begin_time, next_time, problem) VALUES ($1, $2, {now}, {now}, $3) ON CONFLICT DO NOTHING`, o.generation, o.owner, ContentIsOld); err != nil {
				return err
			}
			tx.contentWanted = true
			if most--; most == 0 {
				more = more || n < len(all)-1
				return nil
			}
		}
		return nil
	})
	return next, more, err
}
