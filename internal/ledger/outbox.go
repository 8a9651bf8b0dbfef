package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
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

// EventState is what has become of an event.
type EventState int

// What becomes of an event.
const (
	EventPending EventState = iota
	EventSent
	EventGivenUp
)

func (s EventState) String() string { return [...]string{"pending", "sent", "given up"}[s] }

// Event is something that an owner is told.
type Event struct {
	// ID is the same whenever and however often the event is sent.
	ID, Owner, Type string
	// Subject is the generation, or the budget. Of one subject the events are sent one after the other.
	Subject string
	// Percent is the threshold of a budget.
	Percent int64
	// Data is a document as JSON.
	Data string
	// Time is when it was written, with what it tells of.
	Time     time.Time
	State    EventState
	Attempts int64
	// Problem is why the last attempt has failed.
	Problem string
}

const eventColumns = `id, owner, type, subject, percent, data, event_time, state, attempts, problem`

// events reads the events that a condition names.
func (t *transaction) events(condition string, args ...any) (all []Event, err error) {
	rows, err := t.rows(`SELECT `+eventColumns+` FROM events AS e WHERE `+condition, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		e, written := Event{}, int64(0)
		if err := rows.Scan(&e.ID, &e.Owner, &e.Type, &e.Subject, &e.Percent, &e.Data, &written, &e.State, &e.Attempts, &e.Problem); err != nil {
			return nil, err
		}
		e.Time = time.UnixMicro(written).UTC()
		all = append(all, e)
	}
	return all, rows.Err()
}

// eventTypes are those of states.
var eventTypes = map[lifecycle.Status]string{lifecycle.Succeeded: EventSucceeded, lifecycle.Failed: EventFailed, lifecycle.Refunded: EventRefunded}

// thresholds are the shares of a budget's limit of which its owner is told, in percent.
var thresholds = []int64{80, 100}

// tellGeneration writes the events of what has become of an order.
func (t *transaction) tellGeneration(before, after Order, text *string) error {
	var types []string
	if after.Status > before.Status && eventTypes[after.Status] != "" {
		types = append(types, eventTypes[after.Status])
	}
	if after.IsGone() && !before.IsGone() {
		types = append(types, EventDeleted)
	}
	if len(types) == 0 || t.l.outbox == nil || after.isForwarded() {
		return nil
	}
	own, err := t.l.labelled(t, &clauses{all: []string{"id = $1"}, args: []any{after.ID}})
	if err != nil || len(own) != 1 {
		return err
	}
	after.Labels = own[0].Labels
	for _, eventType := range types {
		one := Event{
			ID: t.l.eventID(after.Owner, after.Generation, eventType), Owner: after.Owner, Type: eventType, Subject: after.Generation, Data: t.l.outbox.Generation(after, text),
		}
		if err := t.tell(one); err != nil {
			return err
		}
	}
	return nil
}

// tellBudgets writes the events of the budgets of the time of an order, each threshold once.
func (t *transaction) tellBudgets(o Order, used []usage) error {
	if t.l.outbox == nil {
		return nil
	}
	for _, p := range t.l.teams()[o.Owner].Limits.periods(o.Time) {
		at := slices.IndexFunc(used, func(u usage) bool { return u.period == p.name })
		if p.limit == nil || at < 0 {
			continue
		}
		if err := t.tellBudget(o.Owner, p, used[at]); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) tellBudget(owner string, p period, u usage) error {
	b := p.budget(u.spent, u.reserved)
	used := b.SpentCents + b.ReservedCents
	for _, percent := range thresholds {
		if percent <= u.told || used <= 0 || used*100 < b.LimitCents*percent {
			continue
		}
		if _, err := t.exec(`UPDATE budgets SET told_percent = $1 WHERE owner = $2 AND period = $3 AND start_time = $4`, percent, owner, p.name, p.start.UnixMicro()); err != nil {
			return err
		}
		subject := fmt.Sprintf("%s.%s", p.name, p.start.Format(time.DateOnly))
		one := Event{
			ID: t.l.eventID(owner, subject, fmt.Sprint(EventBudget, percent)), Owner: owner, Type: EventBudget, Subject: subject, Percent: percent, Data: t.l.outbox.Budget(b),
		}
		if err := t.tell(one); err != nil {
			return err
		}
	}
	return nil
}

// eventID is the id of an event: the same for the same one, whoever writes it.
func (l *Ledger) eventID(owner, subject, what string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{l.catalog, owner, subject, what}, "\x00")))
	return "evt_" + hex.EncodeToString(sum[:16])
}

// tell writes an event, behind the others of its subject.
func (t *transaction) tell(e Event) error {
	rows, err := t.exec(`INSERT INTO events (id, owner, type, subject, position, percent, data, event_time, begin_time, next_time)
		VALUES ($1, $2, $3, $4, (SELECT COALESCE(MAX(position), 0) + 1 FROM events WHERE owner = $5 AND subject = $6), $7, $8, {now}, {now}, {now}) ON CONFLICT DO NOTHING`,
		e.ID, e.Owner, e.Type, e.Subject, e.Owner, e.Subject, e.Percent, e.Data)
	t.told = t.told || rows > 0
	return err
}
