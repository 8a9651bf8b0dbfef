package ledger

import (
	"context"
	"time"
)

// Event returns an event by its id.
func (l *Ledger) Event(ctx context.Context, id string) (e Event, found bool, err error) {
	all, err := askList(ctx, l, scanEvent, selectEvents+`id = $1`, id)
	if err != nil || len(all) == 0 {
		return e, false, err
	}
	return all[0], true, nil
}

// Delivered returns a change that marks an event as delivered and stores the number of attempts.
func Delivered(id string, attempts int64) Change {
	return func(tx *transaction) error {
		_, err := tx.exec(`UPDATE events SET state = {sent}, attempts = $1, problem = '' WHERE id = $2`, attempts, id)
		return err
	}
}

// overdue selects an owner's delivery jobs that are older than [DeliverTimeout] and are not leased. Jobs in the same queue (see
// [Job.Line]) run one after another, so only the first job of a queue can be selected.
var overdue = `SELECT ref, line, begin_time, attempts, problem FROM jobs AS due WHERE kind = '` + DeliverJob + `' AND owner = $1 AND begin_time >= $2 AND begin_time <= (SELECT {now}) - ` + micro(DeliverTimeout) + `
	AND ` + pastCondition("run_time", micro(JobLease)) + ` AND ` + firstInLine + ` ORDER BY begin_time LIMIT $3 {take}`

// GiveUp abandons an owner's events that were not delivered within [DeliverTimeout]. It restarts the timeout of later events
// about the same subjects, because these events had to wait for the abandoned ones. It uses several transactions, so it may
// abandon some events and then fail. events is the number of abandoned events, even if err is not nil.
func (l *Ledger) GiveUp(ctx context.Context, owner string) (events int, err error) {
	return l.runSteps(ctx, func(tx *transaction, from int64) (times []int64, err error) {
		all, err := queryList(tx, func(row scanner, d *delivery) error {
			return row.Scan(&d.event, &d.line, &d.begin, &d.attempts, &d.problem)
		}, overdue, owner, from, stepRows)
		for _, d := range all {
			times = append(times, d.begin)
			if err == nil {
				err = tx.abandonEvent(owner, d)
			}
		}
		return times, err
	})
}

type delivery struct {
	event, line, problem string
	begin, attempts      int64
}

// abandonEvent abandons an event. It restarts the timeout of the later events in the same queue (see [Job.Line]), which had to
// wait for this event.
func (t *transaction) abandonEvent(owner string, d delivery) error {
	_, err := t.exec(`UPDATE events SET state = {given up}, attempts = $1, problem = $2 WHERE id = $3`, d.attempts, d.problem, d.event)
	if err == nil {
		_, err = t.exec(`DELETE FROM jobs WHERE kind = '`+DeliverJob+`' AND ref = $1`, d.event)
	}
	if err == nil {
		_, err = t.exec(`UPDATE jobs SET begin_time = {now} WHERE kind = '`+DeliverJob+`' AND owner = $1 AND line = $2 AND line <> ''`, owner, d.line)
	}
	return err
}

// EventFilter selects events.
type EventFilter struct {
	// Owner is the owner of the events. Empty means all owners.
	Owner string
	// Since selects only events that were written at or after this time. Zero means no limit.
	Since time.Time
	// GivenUp selects only events whose delivery was abandoned.
	GivenUp bool
}

func (f EventFilter) clauses() *clauses {
	c := &clauses{}
	c.addCondition("event_time >= %s", f.Since.UnixMicro())
	if f.Owner != "" {
		c.addCondition("owner = %s", f.Owner)
	}
	if f.GivenUp {
		c.addCondition("state = {given up}")
	}
	return c
}

// Events returns at most limit events that match the filter f, latest first.
func (l *Ledger) Events(ctx context.Context, f EventFilter, limit int) ([]Event, error) {
	c := f.clauses()
	c.addCondition("TRUE ORDER BY event_time DESC, id LIMIT %s", limit)
	return askList(ctx, l, scanEvent, selectEvents+c.String(), c.args...)
}

// EventPosition is a position in the list of an owner's events. The list is sorted by subject, and then by the position within
// the subject. The zero value is before the first event.
type EventPosition struct {
	Subject  string `json:"subject"`
	Position int64  `json:"position"`
}

// Replay sets a batch of an owner's events to pending, so that they are delivered again with the same IDs. The batch contains
// the first [stepRows] events after the given position that match the filter f and are not pending. Replay returns the number
// of changed events, and the position for the next call, or nil after the last batch. Each batch that changes an event is
// audited.
func (l *Ledger) Replay(ctx context.Context, f EventFilter, after EventPosition, by By) (events int64, next *EventPosition, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		c := f.clauses()
		c.addCondition("state <> {pending} AND (subject, position) > (%s, %s) ORDER BY subject, position LIMIT %s", after.Subject, after.Position, stepRows)
		var ids, subjects []string
		var last EventPosition
		err := tx.queryRows(func(row scanner) error {
			id := ""
			err := row.Scan(&id, &last.Subject, &last.Position)
			ids, subjects = append(ids, id), append(subjects, last.Subject)
			return err
		}, `SELECT id, subject, position FROM events WHERE `+c.String(), c.args...)
		if next = nil; len(ids) == stepRows {
			next = &last
		}
		if events = 0; err != nil || len(ids) == 0 {
			return err
		}
		events, err = tx.replayEvents(f.Owner, ids, subjects)
		if err != nil || events == 0 {
			return err
		}
		return tx.addAuditLine(Act{By: by, Action: ActReplay, Subject: f.Owner, Became: struct {
			Since   time.Time `json:"since"`
			GivenUp bool      `json:"given_up,omitempty"`
			Events  int64     `json:"events"`
		}{f.Since.UTC(), f.GivenUp, events}})
	})
	return events, next, err
}

// DeliverKept schedules the delivery of an owner's kept events, except events that are older than [DeliverTimeout]. An event is
// kept, instead of being scheduled, if the process that wrote it had no receiver for the owner.
func (l *Ledger) DeliverKept(ctx context.Context, owner string) error {
	for events := int64(stepRows); events == stepRows; {
		err := l.runTx(ctx, func(tx *transaction) (err error) {
			events, err = tx.deliverKept(owner, "")
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// EventSummary contains the totals for an owner's events.
type EventSummary struct {
	Owner   string `json:"owner"`
	Pending int64  `json:"pending"`
	GivenUp int64  `json:"givenUp"`
	// Oldest is the age of the oldest pending delivery. A replay, or a restart of the timeout, resets the age of a delivery.
	Oldest time.Duration `json:"oldest"`
}

// summarizeEvents returns the totals of each owner that has pending or abandoned events.
func summarizeEvents(tx *transaction) (all []EventSummary, err error) {
	return queryList(tx, func(row scanner, s *EventSummary) error {
		oldest := int64(0)
		err := row.Scan(&s.Owner, &s.Pending, &s.GivenUp, &oldest)
		s.Oldest = time.Duration(oldest) * time.Microsecond
		return err
	}, `SELECT owner, CAST(SUM(pending) AS BIGINT), CAST(SUM(given_up) AS BIGINT), MAX(age) FROM (
		SELECT owner, COUNT(*) AS pending, 0 AS given_up, {now} - MIN(begin_time) AS age FROM jobs WHERE kind = $1 GROUP BY owner
		UNION ALL SELECT owner, 0, COUNT(*), 0 FROM events WHERE state = {given up} GROUP BY owner) AS counts GROUP BY owner ORDER BY owner`, DeliverJob)
}
