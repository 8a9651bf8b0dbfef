package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

const (
	// DeliverJob is the kind of the jobs that deliver events. The Ref of such a job is the ID of the event, and its Line is the
	// event's subject.
	DeliverJob = "deliver"
	// DeliverTimeout is the time after which an undelivered event is abandoned.
	DeliverTimeout = 24 * time.Hour
	// KeepEvents is the time for which the ledger keeps an event that is not pending.
	KeepEvents = 7 * 24 * time.Hour

	// copyTimeout is the maximum time for which the delivery of a success event waits until the result is copied. The delivery
	// waits so that the receiver can read the copy.
	copyTimeout = time.Minute
)

// The types of events.
const (
	EventSucceeded = "easel.generation.succeeded"
	EventFailed    = "easel.generation.failed"
	EventRefunded  = "easel.generation.refunded"
	EventDeleted   = "easel.generation.deleted"
	EventBudget    = "easel.budget.threshold"
)

// EventTypes contains the types of events.
var EventTypes = []string{EventSucceeded, EventFailed, EventRefunded, EventDeleted, EventBudget}

// EventState is the delivery state of an event.
type EventState int

// The delivery states of an event. Only a pending event has a job.
const (
	EventPending EventState = iota
	EventSent
	EventGivenUp
	EventKept // not scheduled for delivery, because the process that wrote the event had no receiver for the event's owner
)

func (s EventState) String() string { return [...]string{"pending", "sent", "given up", "kept"}[s] }

// Event is a notification for an owner.
type Event struct {
	// ID identifies the event, and is the same in each delivery. Owner is the owner that is notified, or [AllOwners]. Type is
	// one of [EventTypes].
	ID, Owner, Type string
	// Subject is the generation or the budget that the event is about. Events about one subject are delivered one at a time, in
	// the order in which they were written.
	Subject string
	// Percent is the threshold in percent, if the event is about a budget.
	Percent int64
	// Data is the content of the event, as a JSON document.
	Data string
	// Time is the time when the event was written. An event is written in the same transaction as the change that it reports.
	Time     time.Time
	State    EventState
	Attempts int64
	// Problem is the reason why the last delivery attempt failed.
	Problem string
}

// selectEvents begins a query whose rows scanEvent can scan. Callers append a condition.
const selectEvents = `SELECT id, owner, type, subject, percent, data, event_time, state, COALESCE((SELECT attempts FROM jobs WHERE kind = '` + DeliverJob + `' AND ref = e.id), attempts),
	COALESCE((SELECT problem FROM jobs WHERE kind = '` + DeliverJob + `' AND ref = e.id), problem) FROM events AS e WHERE `

func scanEvent(row scanner, e *Event) error {
	return row.Scan(&e.ID, &e.Owner, &e.Type, &e.Subject, &e.Percent, &e.Data, moment{&e.Time}, &e.State, &e.Attempts, &e.Problem)
}

// eventTypes maps the states of a generation to event types.
var eventTypes = map[lifecycle.Status]string{lifecycle.Succeeded: EventSucceeded, lifecycle.Failed: EventFailed, lifecycle.Refunded: EventRefunded}

// DefaultThresholds are the percentages of a budget's limit at which its owner is notified. A team can have other thresholds.
var DefaultThresholds = []int64{80, 100}

// AllOwners is the owner of events about the total budget of all owners. It is not a valid name of a team or caller.
const AllOwners = "*"

// tellGeneration compares an order before and after an update, and writes the events that report the changes. text is the text
// of the result, or nil.
func (t *transaction) tellGeneration(before, after Order, text *string) error {
	var types []string
	if after.Status > before.Status && after.Status != lifecycle.Refunded && eventTypes[after.Status] != "" {
		types = append(types, eventTypes[after.Status])
	}
	if after.Refunded && !before.Refunded {
		types = append(types, EventRefunded)
	}
	if after.IsDeleted() && !before.IsDeleted() {
		types = append(types, EventDeleted)
	}
	if len(types) == 0 || t.l.events == nil || after.isForwarded() {
		return nil
	}
	delay := time.Duration(0)
	if t.l.wantsCopy(before, after) {
		delay = copyTimeout
	}
	for _, eventType := range types {
		if err := t.addEvent(Event{Owner: after.Owner, Type: eventType, Subject: after.Generation, Data: t.l.events.Generation(after.stateAtEvent(eventType), text)}, delay); err != nil {
			return err
		}
	}
	return nil
}

// stateAtEvent returns the order in the state that an event of the given type reports. This state can differ from the state in
// the ledger, for example if a success is recorded after the generation was deleted.
func (o Order) stateAtEvent(eventType string) Order {
	if o.DeletedByCall = eventType == EventDeleted; o.DeletedByCall {
		return o
	}
	o.Absence = lifecycle.Absence{}
	for status, told := range eventTypes {
		if told == eventType && (status != lifecycle.Refunded || o.Status != lifecycle.Succeeded) { // in a refund event, a generation that succeeded keeps its status
			o.Status = status
		}
	}
	return o
}

// tellOwner writes the events about an owner's budgets. There are no events about the budgets of label values.
func (t *transaction) tellOwner(o Order, changed []usage) error {
	return t.tellBudgets(o.Owner, t.l.teams()[o.Owner].Limits.periods(o.Time), changed)
}

// tellBudgets writes an event for each threshold that one of an owner's budgets has reached, unless an earlier event has
// reported the threshold.
func (t *transaction) tellBudgets(owner string, periods []Budget, used []usage) error {
	if t.l.events == nil {
		return nil
	}
	for _, b := range periods {
		u, ok := b.findUsage(owner, "", used)
		if !ok || b.LimitCents == unlimited {
			continue
		}
		if err := t.tellBudget(owner, b.withUsage(u), u.notified); err != nil {
			return err
		}
	}
	return nil
}

// tellThreshold is a statement that records, for a budget, the highest threshold that an event has reported. If the budget has
// no row yet, which is possible for the total budget, the statement inserts a row without amounts.
const tellThreshold = `INSERT INTO budgets (owner, period, start_time, told_percent) VALUES ($1, $2, $3, $4)
	ON CONFLICT (owner, label, period, start_time) DO UPDATE SET told_percent = excluded.told_percent WHERE budgets.told_percent < excluded.told_percent`

func (t *transaction) tellBudget(owner string, b Budget, notified int64) error {
	thresholds := t.l.teams()[owner].Thresholds
	if thresholds == nil {
		thresholds = DefaultThresholds
	}
	used := b.SpentCents + b.ReservedCents
	for _, percent := range thresholds {
		if percent <= notified || used <= 0 || used*100 < b.LimitCents*percent {
			continue
		}
		if _, err := t.exec(tellThreshold, owner, b.Period, b.Start.UnixMicro(), percent); err != nil {
			return err
		}
		subject := fmt.Sprintf("%s.%s", b.Period, b.Start.Format(time.DateOnly))
		if err := t.addEvent(Event{Owner: owner, Type: EventBudget, Subject: subject, Percent: percent, Data: t.l.events.Budget(b)}, 0); err != nil {
			return err
		}
	}
	return nil
}

// addDeliveries is the start of a statement that writes delivery jobs for rows of the events table. Callers append a condition
// and inLine, which sorts the jobs by subject and position.
const (
	addDeliveries = `INSERT INTO jobs (kind, ref, owner, line, begin_time, run_time) SELECT '` + DeliverJob + `', id, owner, subject, {now}, {now} FROM events WHERE `
	inLine        = ` ORDER BY subject, position`
)

// eventID returns the id of an event. All processes compute the same id for the same event.
func (l *Ledger) eventID(e Event) string {
	event := e.Type
	if e.Percent > 0 {
		event = fmt.Sprint(e.Type, e.Percent)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{l.catalog, e.Owner, e.Subject, event}, "\x00")))
	return "evt_" + hex.EncodeToString(sum[:16])
}

// addEvent writes an event after the earlier events about its subject. If this process has a receiver for the owner, addEvent
// also writes a job that delivers the event after the delay. If earlier events about the subject were kept because there was no
// receiver, addEvent first writes the jobs for those events, so that they are delivered first.
func (t *transaction) addEvent(e Event, delay time.Duration) error {
	if e.ID, e.State = t.l.eventID(e), EventKept; t.l.IsSubscriber(e.Owner) {
		e.State = EventPending
	}
	position := int64(0)
	added, err := t.scanMaybeRow([]any{&position}, `INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time)
		VALUES ($1, $2, $3, $4, (SELECT COALESCE(MAX(position), 0) + 1 FROM events WHERE owner = $2 AND subject = $4), $5, $6, $7, {now}) ON CONFLICT DO NOTHING RETURNING position`,
		e.ID, e.Owner, e.Type, e.Subject, e.Percent, e.Data, e.State)
	if err != nil || !added || e.State != EventPending {
		return err
	}
	if position > 1 {
		if _, err := t.deliverKept(e.Owner, e.Subject); err != nil {
			return err
		}
	}
	return t.addJob(Job{Kind: DeliverJob, Ref: e.ID, Owner: e.Owner, Line: e.Subject}, delay)
}

// deliverNow schedules a generation's success event for immediate delivery, if the event is still waiting for the copy of the
// result.
func (t *transaction) deliverNow(owner, generation string) error {
	rows, err := t.exec(`UPDATE jobs SET run_time = {now} WHERE kind = '`+DeliverJob+`' AND ref = $1 AND fence = 0`, t.l.eventID(Event{Owner: owner, Type: EventSucceeded, Subject: generation}))
	t.jobAdded = t.jobAdded || rows > 0
	return err
}

// deliverKept requests the delivery of events that were not scheduled when they were written, because their owner had no
// receiver. It selects an owner's events about a subject, or about all subjects if subject is empty. It ignores events that are
// older than [DeliverTimeout]. It requests at most [stepRows] deliveries, and returns their number.
func (t *transaction) deliverKept(owner, subject string) (events int64, err error) {
	var ids, subjects []string
	err = t.queryRows(func(row scanner) error {
		var id, subject string
		err := row.Scan(&id, &subject)
		ids, subjects = append(ids, id), append(subjects, subject)
		return err
	}, `SELECT id, subject FROM events WHERE owner = $1 AND state = {kept} AND event_time > {now} - $3 AND ($2 = '' OR subject = $2) ORDER BY event_time, position LIMIT $4`,
		owner, subject, DeliverTimeout.Microseconds(), stepRows)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return t.replayEvents(owner, ids, subjects)
}

// replayEvents sets the events with the given IDs to pending, and returns how many of them were not pending before. subjects
// are the subjects of these events. replayEvents deletes all delivery jobs for these subjects and writes them again, so that
// earlier events are delivered before later ones.
func (t *transaction) replayEvents(owner string, ids, subjects []string) (events int64, err error) {
	_, err = t.exec(`DELETE FROM jobs WHERE kind = '`+DeliverJob+`' AND owner = $2 AND line {in ids} AND line <> ''`, asList(subjects), owner)
	if err == nil {
		events, err = t.exec(`UPDATE events SET state = {pending}, attempts = 0, problem = '' WHERE id {in ids} AND state <> {pending}`, asList(ids))
	}
	if err == nil {
		_, err = t.exec(addDeliveries+`subject {in ids} AND owner = $2 AND state = {pending}`+inLine, asList(subjects), owner)
	}
	t.jobAdded = true
	return events, err
}
