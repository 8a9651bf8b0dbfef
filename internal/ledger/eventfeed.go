package ledger

import (
	"context"
	"time"
)

// Constants for the event feed. The facts table stores the state of the feed.
const (
	feedFact        = "feed"          // key in the facts table for the ID of the feed
	positionFact    = "feed_position" // key in the facts table for the highest assigned event position
	deletedFact     = "feed_deleted"  // key in the facts table for the highest position of all deleted events
	numberedAtOnce  = 500             // maximum number of events that get a position in one transaction
	unnumberedEvent = `SELECT EXISTS (SELECT 1 FROM events WHERE feed_position IS NULL), COALESCE((SELECT CAST(value AS BIGINT) FROM facts WHERE name = '` + positionFact + `'), 0)`
)

// FeedEvent is an event with its position in the feed.
type FeedEvent struct {
	ID, Owner, Type, Data string
	// Time is the time when the event was written.
	Time     time.Time
	Position int64
}

// FeedState is the state of the event feed.
type FeedState struct {
	// ID identifies the feed. A copy of the ledger, or a new in-memory ledger, has another ID, because its positions refer to
	// other events.
	ID string
	// Deleted is the highest position of a deleted event. A reader that continues from a lower position may have missed events.
	Deleted int64
	// Last is the highest position that was assigned to an event.
	Last int64
	// Oldest is the time of the oldest event in the ledger, or zero if there are no events.
	Oldest time.Time
}

// NumberEvents assigns the next positions to the committed events that have no position. Events about one subject keep their
// order. It returns the highest assigned position. A database sequence is not enough, because an event with a lower number may
// be committed later, and readers would miss it. Only one transaction at a time assigns positions.
func (l *Ledger) NumberEvents(ctx context.Context) (last int64, err error) {
	for {
		more := false
		if err = l.askOne(ctx, []any{&more, &last}, unnumberedEvent); err != nil || !more {
			return last, err
		}
		if err = l.runTx(ctx, func(tx *transaction) error { return tx.numberEvents() }); err != nil {
			return last, err
		}
	}
}

func (t *transaction) numberEvents() error {
	if _, err := t.exec(`INSERT INTO facts (name, value) VALUES ($1, '0') ON CONFLICT (name) DO NOTHING`, positionFact); err != nil {
		return err
	}
	var last int64
	if err := t.scanRow([]any{&last}, `SELECT CAST(value AS BIGINT) FROM facts WHERE name = $1 {lock}`, positionFact); err != nil {
		return err
	}
	rows, err := t.exec(`UPDATE events SET feed_position = $1 + numbered.n FROM (
		SELECT id, ROW_NUMBER() OVER (ORDER BY position, event_time, id) AS n FROM events WHERE feed_position IS NULL ORDER BY position, event_time, id LIMIT $2) AS numbered
		WHERE events.id = numbered.id`, last, numberedAtOnce)
	if err == nil {
		_, err = t.exec(`UPDATE facts SET value = CAST(CAST(value AS BIGINT) + $1 AS TEXT) WHERE name = $2`, rows, positionFact)
	}
	return err
}

// Feed returns at most limit events after a position, in the order of their positions. It returns the events of one owner, or
// of all owners if owner is nil.
func (l *Ledger) Feed(ctx context.Context, owner *string, after int64, limit int) ([]FeedEvent, error) {
	c := feedClauses(owner)
	c.addCondition("feed_position > %s ORDER BY feed_position LIMIT %s", after, limit)
	return askList(ctx, l, func(row scanner, e *FeedEvent) error {
		return row.Scan(&e.ID, &e.Owner, &e.Type, &e.Data, moment{&e.Time}, &e.Position)
	}, `SELECT id, owner, type, data, event_time, feed_position FROM events WHERE `+c.String(), c.args...)
}

// FeedStart returns the position just before the first event that was written at or after the given time. If there is no such
// event, it returns the last position. It considers the events of one owner, or of all owners if owner is nil.
func (l *Ledger) FeedStart(ctx context.Context, owner *string, since time.Time) (position int64, err error) {
	last, err := l.NumberEvents(ctx)
	if err != nil {
		return 0, err
	}
	c := feedClauses(owner)
	c.addCondition("event_time >= %s", since.UnixMicro())
	err = l.askOne(ctx, []any{&position}, `SELECT COALESCE(MIN(feed_position) - 1, `+c.bind("%s", last)+`) FROM events WHERE `+c.String(), c.args...)
	return position, err
}

// feedClauses returns the WHERE clauses that select the events of an owner, or of all owners if owner is nil.
func feedClauses(owner *string) *clauses {
	c := &clauses{}
	if owner != nil {
		c.addCondition("owner = %s", *owner)
	}
	return c
}

// FeedState returns the state of the feed. If the feed has no ID yet, it stores the suggested ID.
func (l *Ledger) FeedState(ctx context.Context, suggested string) (s FeedState, err error) {
	if s.Last, err = l.NumberEvents(ctx); err != nil {
		return s, err
	}
	err = l.askOne(ctx, []any{&s.ID, &s.Deleted, moment{&s.Oldest}}, `SELECT COALESCE((SELECT value FROM facts WHERE name = '`+feedFact+`'), ''),
		COALESCE((SELECT CAST(value AS BIGINT) FROM facts WHERE name = '`+deletedFact+`'), 0), COALESCE((SELECT MIN(event_time) FROM events), 0)`)
	if err == nil && s.ID == "" {
		s.ID, err = l.storeOnce(ctx, feedFact, suggested)
	}
	return s, err
}

// ForgetEvents deletes events that are older than [KeepEvents] and not pending. It uses several transactions.
func (l *Ledger) ForgetEvents(ctx context.Context) error {
	_, err := l.runSteps(ctx, func(tx *transaction, from int64) (times []int64, err error) {
		var highest int64
		err = tx.queryRows(func(row scanner) error {
			var at, position int64
			err := row.Scan(&at, &position)
			times, highest = append(times, at), max(highest, position)
			return err
		}, `DELETE FROM events WHERE id IN (SELECT id FROM events WHERE state <> {pending} AND event_time >= $1
			AND event_time <= (SELECT {now}) - $3 ORDER BY event_time LIMIT $2) RETURNING event_time, COALESCE(feed_position, 0)`, from, stepRows, KeepEvents.Microseconds())
		if err == nil && highest > 0 {
			_, err = tx.exec(`INSERT INTO facts (name, value) VALUES ($1, CAST(CAST($2 AS BIGINT) AS TEXT)) ON CONFLICT (name) DO UPDATE SET
				value = CASE WHEN CAST(facts.value AS BIGINT) < CAST(excluded.value AS BIGINT) THEN excluded.value ELSE facts.value END`, deletedFact, highest)
		}
		return times, err
	})
	return err
}
