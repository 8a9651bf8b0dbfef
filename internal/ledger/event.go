package ledger

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// AbandonedEventOwners returns the owners without deliveries for as long as an event is tried, and with events that were due
// all that time: no process has leased their deliveries.
func (l *Ledger) AbandonedEventOwners(ctx context.Context) (owners []string, err error) {
	return ask(ctx, l, scanText, pendingOwners+` AND EXISTS (SELECT 1 FROM duties WHERE name = '`+tellingDuty+`' || each_of.owner AND `+isPast("claimed_until + $1", "$1 + "+micro(ClaimTime))+`)
		AND EXISTS (SELECT 1 FROM events WHERE owner = each_of.owner AND state = {pending} AND next_time <= (SELECT {now}) - $1)`, SendWithin.Microseconds())
}

// pendingOwners is a query for the owners of pending events.
var pendingOwners = eachOwner("events", "state = {pending}")

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

// NotSent records a failed attempt to send an event, and reports whether the event was given up: it was tried for long
// enough. Otherwise it is tried again later.
func (l *Ledger) NotSent(ctx context.Context, id, problem string) (givenUp bool, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		states, err := collect(tx, func(row scanner, s *EventState) error { return row.Scan(s) }, `UPDATE events SET attempts = attempts + 1, problem = $1,
			next_time = {now} + CASE WHEN {now} - begin_time < $2 THEN $3 WHEN {now} - begin_time > $4 THEN $5 ELSE ({now} - begin_time) / $6 END,
			state = CASE WHEN begin_time <= {now} - $7 THEN {given up} ELSE state END WHERE id = $8 AND state = {pending} RETURNING state`,
			problem, resendShare*resendLeast.Microseconds(), resendLeast.Microseconds(), resendShare*resendAtMost.Microseconds(), resendAtMost.Microseconds(), resendShare, SendWithin.Microseconds(), id)
		givenUp = slices.Contains(states, EventGivenUp)
		return err
	})
	return givenUp && err == nil, err
}

// GiveUp marks, in steps, the events of an owner without deliveries as given up that were due for as long as an event is
// tried. It returns their number, after an error too.
func (l *Ledger) GiveUp(ctx context.Context, owner string) (events int, err error) {
	return l.changeInSteps(ctx, `UPDATE events SET state = {given up} WHERE id IN (SELECT id FROM events WHERE owner = $3 AND state = {pending} AND next_time >= $1
		AND next_time <= (SELECT {now}) - $4 ORDER BY next_time LIMIT $2 {take}) RETURNING next_time`, owner, SendWithin.Microseconds())
}

// ForgetEvents deletes, in steps, the events that were sent or given up long ago, and those of owners that never had
// deliveries.
func (l *Ledger) ForgetEvents(ctx context.Context) error {
	_, err := l.changeInSteps(ctx, `DELETE FROM events WHERE id IN (SELECT id FROM events WHERE state <> {pending} AND event_time >= $1
		AND event_time <= (SELECT {now}) - $3 ORDER BY event_time LIMIT $2) RETURNING event_time`, KeepEvents.Microseconds())
	if err != nil {
		return err
	}
	owners, err := ask(ctx, l, scanText, pendingOwners+` AND NOT EXISTS (SELECT 1 FROM duties WHERE name = '`+tellingDuty+`' || each_of.owner)`)
	for _, owner := range owners {
		if err == nil { // each was never tried, so that it is due since it was written
			_, err = l.changeInSteps(ctx, `DELETE FROM events WHERE id IN (SELECT id FROM events WHERE owner = $3 AND state = {pending} AND next_time >= $1
				AND next_time <= (SELECT {now}) - $4 ORDER BY next_time LIMIT $2) AND NOT EXISTS (SELECT 1 FROM duties WHERE name = $5) RETURNING next_time`,
				owner, SendWithin.Microseconds(), TellingDuty(owner))
		}
	}
	return err
}

// EventFilter chooses events.
type EventFilter struct {
	// Owner is whose they are; "" is everybody's.
	Owner string
	// Since is when the oldest was written.
	Since time.Time
	// GivenUp chooses those that were given up alone.
	GivenUp bool
}

// Events returns the newest events that a filter chooses.
func (l *Ledger) Events(ctx context.Context, f EventFilter, most int) ([]Event, error) {
	c := &clauses{}
	c.add("event_time >= %s", f.Since.UnixMicro())
	if f.Owner != "" {
		c.add("owner = %s", f.Owner)
	}
	if f.GivenUp {
		c.add("state = {given up}")
	}
	c.add("TRUE ORDER BY event_time DESC, id LIMIT %s", most)
	return ask(ctx, l, scanEvent, selectEvents+c.String(), c.args...)
}

// EventPosition is a position in the events of an owner. The zero value is before the first one.
type EventPosition struct {
	Subject  string `json:"subject"`
	Position int64  `json:"position"`
}

// eventRow is an event at its position.
type eventRow struct {
	EventPosition
	id    string
	time  time.Time
	state EventState
}

func scanEventRow(row scanner, e *eventRow) error {
	return row.Scan(&e.id, &e.Subject, &e.Position, moment{&e.time}, &e.state)
}

// Replay makes events pending once more, with their ids, in one step: of the next events of an owner after a position, it
// takes the events that a filter chooses. It returns the number of events, and the position of the next step
// or nil after the last one. The audit has a line for each step that changes something.
func (l *Ledger) Replay(ctx context.Context, f EventFilter, after EventPosition, by By) (events int64, next *EventPosition, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		page, err := collect(tx, scanEventRow, `SELECT id, subject, position, event_time, state FROM events
			WHERE owner = $1 AND (subject, position) > ($2, $3) ORDER BY subject, position LIMIT $4`, f.Owner, after.Subject, after.Position, stepRows)
		if next = nil; len(page) == stepRows {
			next = new(page[len(page)-1].EventPosition)
		}
		page = slices.DeleteFunc(page, func(e eventRow) bool { return e.time.Before(f.Since) || f.GivenUp && e.state != EventGivenUp })
		if events = 0; err != nil || len(page) == 0 {
			return err
		}
		events, err = tx.replay(page)
		if err != nil || events == 0 {
			return err
		}
		return tx.audit(Act{By: by, Action: ActReplay, Subject: f.Owner, Became: struct {
			Since   time.Time `json:"since"`
			GivenUp bool      `json:"given_up,omitempty"`
			Events  int64     `json:"events"`
		}{f.Since.UTC(), f.GivenUp, events}})
	})
	return events, next, err
}

func (t *transaction) replay(page []eventRow) (events int64, err error) {
	ids := make([]string, len(page))
	for n, e := range page {
		ids[n] = e.id
	}
	events, err = t.exec(`UPDATE events SET state = {pending}, attempts = 0, problem = '', begin_time = {now}, next_time = {now} WHERE id {in ids} AND state <> {pending}`, asList(ids))
	t.eventWritten = t.eventWritten || events > 0
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
