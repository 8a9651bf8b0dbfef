package ledger

import (
	"context"
	"fmt"
	"math"
	"time"
)

const (
	// SendWithin is how long an event is tried to be sent before it is given up.
	SendWithin = 24 * time.Hour
	// KeepEvents is how long an event stays in the ledger that was sent or given up.
	KeepEvents = 7 * 24 * time.Hour

	// copyFirst is how long the event of a finished render waits for the copy of the result: who is told reads it at once.
	copyFirst = time.Minute

	// An event is sent again after a twentieth of the time that it has waited, within bounds.
	resendShare               = 20
	resendLeast, resendAtMost = time.Second, 10 * time.Minute
)

// DueEventOwners are those of some owners who have to be told something now.
func (l *Ledger) DueEventOwners(ctx context.Context, told []string) (owners []string, err error) {
	if len(told) == 0 {
		return nil, nil
	}
	return ask(ctx, l, scanText, `SELECT ids.id FROM {ids} WHERE EXISTS (SELECT 1 FROM events WHERE owner = ids.id AND state = {pending} AND next_time <= (SELECT {now}))
		OR EXISTS (`+eventsAhead+` AND owner = ids.id)`, asList(told))
}

// eventsAhead are the events whose next time is further ahead than any pause: the database's clock was corrected.
var eventsAhead = `SELECT 1 FROM events WHERE state = {pending} AND next_time > (SELECT {now}) + ` + micro(maxPause)

// AbandonedEventOwners are the owners who are told no more, with events that nobody has sent for as long as one is
// tried to be sent: no process has claimed to tell them for as long.
func (l *Ledger) AbandonedEventOwners(ctx context.Context) (owners []string, err error) {
	return ask(ctx, l, scanText, `SELECT DISTINCT owner FROM events WHERE state = {pending} AND begin_time <= {now} - $1
		AND EXISTS (SELECT 1 FROM duties WHERE name = '`+tellingDuty+`' || owner AND claimed_until <= {now} - $1)`, SendWithin.Microseconds())
}

// tellingDuty begins the name of the duty to tell an owner. Who has never been told has none.
const tellingDuty = "events "

// TellingDuty is the duty to tell an owner, which one process has at a time.
func TellingDuty(owner string) string { return tellingDuty + owner }

// DueEvents returns the events to deliver to an owner now: the first pending one of each subject. If an event is further ahead
// than any pause, all count as due: the index can search for a single bound.
func (l *Ledger) DueEvents(ctx context.Context, owner string, most int) ([]Event, error) {
	return ask(ctx, l, scanEvent, selectEvents+`owner = $1 AND state = {pending} AND next_time <= (SELECT CASE WHEN EXISTS (`+eventsAhead+` AND owner = $1) THEN `+fmt.Sprint(math.MaxInt64)+` ELSE {now} END) AND NOT EXISTS (SELECT 1 FROM events
		WHERE owner = e.owner AND subject = e.subject AND position < e.position AND state = {pending})
		AND NOT (type = '`+EventSucceeded+`' AND event_time > {now} - $3 AND event_time <= {now} AND EXISTS (SELECT 1 FROM contents WHERE generation_id = e.subject AND state = {waiting}))
		ORDER BY next_time, event_time, id LIMIT $2`, owner, most, copyFirst.Microseconds())
}

// Sent records that an event has arrived.
func (l *Ledger) Sent(ctx context.Context, id string) error {
	_, err := l.change(ctx, `UPDATE events SET state = {sent}, attempts = attempts + 1, problem = '' WHERE id = $1`, id)
	return err
}

// NotSent records that an attempt to send an event has failed. It is tried again later.
func (l *Ledger) NotSent(ctx context.Context, id, problem string) error {
	_, err := l.change(ctx, `UPDATE events SET attempts = attempts + 1, problem = $1, next_time = {now} + CASE WHEN {now} - begin_time < $2 THEN $3
		WHEN {now} - begin_time > $4 THEN $5 ELSE ({now} - begin_time) / $6 END WHERE id = $7 AND state = {pending}`,
		problem, resendShare*resendLeast.Microseconds(), resendLeast.Microseconds(), resendShare*resendAtMost.Microseconds(), resendAtMost.Microseconds(), resendShare, id)
	return err
}

// GiveUp gives up the events of an owner whose time is over, and gives their number: those that have been tried, or all.
// The next of their subjects may be sent then, and is tried once whatever its time.
func (l *Ledger) GiveUp(ctx context.Context, owner string, all bool) (events int64, err error) {
	return l.change(ctx, `UPDATE events SET state = {given up} WHERE owner = $1 AND state = {pending} AND begin_time <= {now} - $2 AND attempts >= $3`,
		owner, SendWithin.Microseconds(), number(!all))
}

// ForgetEvents deletes some of what was sent or given up long ago, and of what nobody was ever to be told. It reports
// whether there may be more.
func (l *Ledger) ForgetEvents(ctx context.Context) (more bool, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		rows, err := tx.exec(`DELETE FROM events WHERE id IN (SELECT id FROM events WHERE state <> {pending} AND event_time <= {now} - $1 LIMIT $2 {take})`, KeepEvents.Microseconds(), forgetAtOnce)
		if err != nil {
			return err
		}
		never, err := tx.exec(`DELETE FROM events WHERE id IN (SELECT id FROM events AS e WHERE state = {pending} AND begin_time <= {now} - $1
			AND NOT EXISTS (SELECT 1 FROM duties WHERE name = '`+tellingDuty+`' || e.owner) LIMIT $2 {take})`, SendWithin.Microseconds(), forgetAtOnce)
		more = rows == forgetAtOnce || never == forgetAtOnce
		return err
	})
	return more, err
}

// forgetAtOnce is how many events are deleted at once.
const forgetAtOnce = 1000

// EventFilter chooses events.
type EventFilter struct {
	// Owner is whose they are; "" is everybody's.
	Owner string
	// Since is when the oldest was written.
	Since time.Time
	// GivenUp chooses those that were given up alone.
	GivenUp bool
}

func (f EventFilter) clauses() *clauses {
	c := &clauses{}
	c.add("event_time >= %s", f.Since.UnixMicro())
	if f.Owner != "" {
		c.add("owner = %s", f.Owner)
	}
	if f.GivenUp {
		c.add("state = {given up}")
	}
	return c
}

// Events gives the newest events that a filter chooses.
func (l *Ledger) Events(ctx context.Context, f EventFilter, most int) ([]Event, error) {
	c := f.clauses()
	c.add("TRUE ORDER BY event_time DESC, id LIMIT %s", most)
	return ask(ctx, l, scanEvent, selectEvents+c.String(), c.args...)
}

// Replay lets the events that a filter chooses be sent once more, with their ids, and gives their number. Those that are
// pending stay as they are. The audit has who has wanted it.
func (l *Ledger) Replay(ctx context.Context, f EventFilter, by By) (events int64, err error) {
	c := f.clauses()
	c.add("state <> {pending}")
	err = l.inTransaction(ctx, func(tx *transaction) error {
		events, err = tx.exec(`UPDATE events SET state = {pending}, attempts = 0, problem = '', begin_time = {now}, next_time = {now} WHERE `+c.String(), c.args...)
		tx.eventWritten = tx.eventWritten || events > 0
		if err != nil || events == 0 {
			return err
		}
		return tx.audit(Act{By: by, Action: ActReplay, Subject: f.Owner, Became: struct {
			Since   time.Time `json:"since"`
			GivenUp bool      `json:"given_up,omitempty"`
			Events  int64     `json:"events"`
		}{f.Since.UTC(), f.GivenUp, events}})
	})
	return events, err
}

// EventSummary is what the ledger has of the events of an owner.
type EventSummary struct {
	Owner            string
	Pending, GivenUp int64
	// Oldest is how long the oldest that is pending has been so.
	Oldest time.Duration
}

// summarizeEvents sums up the events of each owner that is told or was, and has some that were not sent.
func (l *Ledger) summarizeEvents(tx *transaction) (all []EventSummary, err error) {
	if l.outbox == nil {
		return nil, nil
	}
	return collect(tx, func(row scanner, s *EventSummary) error {
		oldest := int64(0)
		err := row.Scan(&s.Owner, &s.Pending, &s.GivenUp, &oldest)
		s.Oldest = time.Duration(oldest) * time.Microsecond
		return err
	}, `SELECT owner, SUM(CASE WHEN state = {pending} THEN 1 ELSE 0 END), SUM(CASE WHEN state = {given up} THEN 1 ELSE 0 END),
		CAST(COALESCE({now} - MIN(CASE WHEN state = {pending} THEN begin_time END), 0) AS BIGINT) FROM events
		WHERE state <> {sent} AND owner IN (SELECT SUBSTR(name, $1) FROM duties WHERE name LIKE '`+tellingDuty+`%') GROUP BY owner ORDER BY owner`, len(tellingDuty)+1)
}
