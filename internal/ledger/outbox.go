package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// The types of events.
const (
	EventSucceeded = "easel.generation.succeeded"
	EventFailed    = "easel.generation.failed"
	EventRefunded  = "easel.generation.refunded"
	EventDeleted   = "easel.generation.deleted"
	EventBudget    = "easel.budget.threshold"
)

// EventState is the state of the delivery of an event.
type EventState int

// The states of the delivery of an event. A pending event has a job.
const (
	EventPending EventState = iota
	EventSent
	EventGivenUp
	EventKept // its owner had no receiver
)

func (s EventState) String() string { return [...]string{"pending", "sent", "given up", "kept"}[s] }

// Event is a notification for an owner.
type Event struct {
	// ID is the same for each delivery of the event.
	ID, Owner, Type string
	// Subject is the generation or the budget. Events of one subject are sent one at a time.
	Subject string
	// Percent is the threshold of a budget.
	Percent int64
	// Data is a JSON document.
	Data string
	// Time is the time when the event was written, together with the change that it reports.
	Time     time.Time
	State    EventState
	Attempts int64
	// Problem is the reason why the last attempt failed.
	Problem string
}

// selectEvents is the beginning of a query for events, which scanEvent scans.
const selectEvents = `SELECT id, owner, type, subject, percent, data, event_time, state, COALESCE((SELECT attempts FROM jobs WHERE kind = '` + DeliverJob + `' AND ref = e.id), attempts),
	COALESCE((SELECT problem FROM jobs WHERE kind = '` + DeliverJob + `' AND ref = e.id), problem) FROM events AS e WHERE `

func scanEvent(row scanner, e *Event) error {
	return row.Scan(&e.ID, &e.Owner, &e.Type, &e.Subject, &e.Percent, &e.Data, moment{&e.Time}, &e.State, &e.Attempts, &e.Problem)
}

// eventTypes are the types of events by state.
var eventTypes = map[lifecycle.Status]string{lifecycle.Succeeded: EventSucceeded, lifecycle.Failed: EventFailed, lifecycle.Refunded: EventRefunded}

// thresholds are the percentages of a budget's limit at which its owner is notified.
var thresholds = []int64{80, 100}

// tellGeneration writes the events of a change of an order.
func (t *transaction) tellGeneration(before, after Order, text *string) error {
	var types []string
	if after.Status > before.Status && after.Status != lifecycle.Refunded && eventTypes[after.Status] != "" {
		types = append(types, eventTypes[after.Status])
	}
	if after.Refunded && !before.Refunded {
		types = append(types, EventRefunded)
	}
	if after.IsGone() && !before.IsGone() {
		types = append(types, EventDeleted)
	}
	if len(types) == 0 || t.l.outbox == nil || after.isForwarded() {
		return nil
	}
	delay := time.Duration(0)
	if t.wantsCopy(before, after) {
		delay = copyTimeout
	}
	for _, eventType := range types {
		if err := t.addEvent(Event{Owner: after.Owner, Type: eventType, Subject: after.Generation, Data: t.l.outbox.Generation(after.as(eventType), text)}, delay); err != nil {
			return err
		}
	}
	return nil
}

// as returns the order as an event of the given type reports it. A state may be recorded after a deletion.
func (o Order) as(eventType string) Order {
	if o.Deleted = eventType == EventDeleted; o.Deleted {
		return o
	}
	o.Absence = lifecycle.Absence{}
	for status, told := range eventTypes {
		if told == eventType && (status != lifecycle.Refunded || o.Status != lifecycle.Succeeded) { // a refund changes no success
			o.Status = status
		}
	}
	return o
}

// tellBudgets writes the events of the changed budgets of the time of an order, each threshold once.
func (t *transaction) tellBudgets(o Order, changed []usage) error {
	if t.l.outbox == nil {
		return nil
	}
	for _, b := range t.l.teams()[o.Owner].Limits.periods(o.Time) {
		u, ok := b.find(o.Owner, changed)
		if !ok || b.LimitCents == unlimited {
			continue
		}
		if err := t.tellBudget(o.Owner, b.with(u), u.notified); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) tellBudget(owner string, b Budget, notified int64) error {
	used := b.SpentCents + b.ReservedCents
	for _, percent := range thresholds {
		if percent <= notified || used <= 0 || used*100 < b.LimitCents*percent {
			continue
		}
		if _, err := t.exec(`UPDATE budgets SET told_percent = $1 WHERE owner = $2 AND period = $3 AND start_time = $4 AND told_percent < $1`, percent, owner, b.Period, b.Start.UnixMicro()); err != nil {
			return err
		}
		subject := fmt.Sprintf("%s.%s", b.Period, b.Start.Format(time.DateOnly))
		if err := t.addEvent(Event{Owner: owner, Type: EventBudget, Subject: subject, Percent: percent, Data: t.l.outbox.Budget(b)}, 0); err != nil {
			return err
		}
	}
	return nil
}

// eventID returns the id of an event. It is the same for the same event, in each process.
func (l *Ledger) eventID(e Event) string {
	event := e.Type
	if e.Percent > 0 {
		event = fmt.Sprint(e.Type, e.Percent)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{l.catalog, e.Owner, e.Subject, event}, "\x00")))
	return "evt_" + hex.EncodeToString(sum[:16])
}

// addEvent writes an event behind the others of its subject. If this process knows a receiver of its owner, it writes the job that
// delivers the event after a delay, and the jobs of kept events before it.
func (t *transaction) addEvent(e Event, delay time.Duration) error {
	if e.ID, e.State = t.l.eventID(e), EventKept; t.l.IsSubscriber(e.Owner) {
		e.State = EventPending
	}
	position := int64(0)
	added, err := t.maybeRow([]any{&position}, `INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time)
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

// Outbox has the owners that are notified of events, and the data of the events. Every event is written. It is delivered
// if the process that writes it knows a receiver of its owner. The functions are called within transactions, so they must
// not use the ledger or block.
type Outbox struct {
	// Teams are the owners that this process knows, by name.
	Teams func() map[string]Team
	// Generation returns the data of an event about the generation of an order, as JSON. text is the text of the result,
	// or nil.
	Generation func(o Order, text *string) string
	// Budget returns the data of an event about a budget, as JSON.
	Budget func(Budget) string
}

// Team is the configuration of one owner in this process.
type Team struct {
	Limits     Limits
	Subscribed bool          // whether it receives events
	Retention  time.Duration // time after which content is erased; zero means never
	// KeepDeleted means that the copy of a result is kept when the owner deletes the generation in the catalog.
	KeepDeleted bool
}

// teams returns the owners that this process knows.
func (l *Ledger) teams() map[string]Team {
	if l.outbox == nil {
		return nil
	}
	return l.outbox.Teams()
}

// IsSubscriber reports whether this process has an event receiver for an owner.
func (l *Ledger) IsSubscriber(owner string) bool { return l.teams()[owner].Subscribed }
