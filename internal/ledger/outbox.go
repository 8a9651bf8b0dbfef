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

// Outbox says what is told of events. Every state is written, whoever records it: who is told is decided when an event
// is sent, by a process that knows. Its functions are called within transactions: none may ask the ledger, or wait.
type Outbox struct {
	// Teams are the owners that this process knows, by name.
	Teams func() map[string]Team
	// Generation is the data of an event about the generation of an order, as JSON. Text is that of its result,
	// where it has one.
	Generation func(o Order, text *string) string
	// Budget is the data of an event about a budget, as JSON.
	Budget func(Budget) string
}

// Team is what a process knows of an owner.
type Team struct {
	Limits Limits
	Told   bool // of events
}

// teams are the owners that this process knows.
func (l *Ledger) teams() map[string]Team {
	if l.outbox == nil {
		return nil
	}
	return l.outbox.Teams()
}

// IsTold reports whether this process knows that an owner is told of events.
func (l *Ledger) IsTold(owner string) bool { return l.teams()[owner].Told }

// Told are the owners who are told of events, as far as this process knows.
func (l *Ledger) Told() (owners []string) {
	for name, team := range l.teams() {
		if team.Told {
			owners = append(owners, name)
		}
	}
	slices.Sort(owners)
	return owners
}

// Written has a value after this process has written an event.
func (l *Ledger) Written() <-chan struct{} { return l.written }

// The types of events.
const (
	EventSucceeded = "easel.generation.succeeded"
	EventFailed    = "easel.generation.failed"
	EventRefunded  = "easel.generation.refunded"
	EventDeleted   = "easel.generation.deleted"
	EventBudget    = "easel.budget.threshold"
)

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

// usage is what is used of a budget, as the statement gives it that has changed it.
type usage struct {
	period                string
	spent, reserved, told int64
}

// usageColumns are what a statement gives that changes budgets.
const usageColumns = `budgets.period, budgets.spent_cents, budgets.reserved_cents, budgets.told_percent`

// usages carries a statement out that gives them.
func (t *transaction) usages(statement string, args ...any) (all []usage, err error) {
	rows, err := t.rows(statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		var u usage
		if err := rows.Scan(&u.period, &u.spent, &u.reserved, &u.told); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, rows.Err()
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
