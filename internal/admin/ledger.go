package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	shownOwners = 100              // at most
	unknownLong = 10 * time.Minute // an order of unknown outcome, before somebody should know
	silentLong  = 30 * time.Minute // an event that its receiver does not take, before somebody should know
)

// Ledger is the book of orders in sum.
type Ledger struct {
	Durable bool      // it outlives this process
	Up      bool      // the last read was answered
	Read    time.Time // of what is here; zero where none was answered
	// Unknown orders have no outcome yet, the oldest since OldestUnknown.
	Unknown       int64
	OldestUnknown time.Duration
	// Faults of the book are since the start of the program.
	Faults int64
	// Named means that owners have names, and Owners has all of them.
	Named  bool
	Owners []Owner
}

// Owner is the money and the orders of an owner.
type Owner struct {
	Name                                                       string
	Orders                                                     int64
	SpentCents, RefundedCents, ReservedCents, UnconfirmedCents int64
	Unknown                                                    int64
	OldestUnknown                                              time.Duration
	Budgets                                                    []Budget // those that have a limit
	PendingEvents, GivenUpEvents                               int64
	OldestEvent                                                time.Duration // of those that are pending
}

// Budget is a budget that has a limit.
type Budget struct {
	Window                string // day or month
	LimitCents, LeftCents int64
}

// book is the ledger in the report.
type book struct {
	Durable       bool       `json:"durable"`
	Up            bool       `json:"up"`
	Read          *time.Time `json:"read"`
	Unknown       int64      `json:"unknown"`
	OldestUnknown *time.Time `json:"oldestUnknown"`
	Faults        int64      `json:"faults"`
	Named         bool       `json:"named"`
	OwnerCount    int        `json:"ownerCount"`
	Owners        []owner    `json:"owners"` // at most 100, those with unknown orders first, then by what is left of the budget
}

type owner struct {
	Name             string     `json:"owner"`
	Orders           int64      `json:"orders"`
	SpentCents       int64      `json:"spentCents"` // gross
	RefundedCents    int64      `json:"refundedCents"`
	ReservedCents    int64      `json:"reservedCents"`
	UnconfirmedCents int64      `json:"unconfirmedCents"` // of what is spent
	Day              *budget    `json:"day"`              // null without a limit
	Month            *budget    `json:"month"`
	Unknown          int64      `json:"unknown"`
	OldestUnknown    *time.Time `json:"oldestUnknown"`
	PendingEvents    int64      `json:"pendingEvents"`
	GivenUpEvents    int64      `json:"givenUpEvents"`
	OldestEvent      *time.Time `json:"oldestEvent"`
}

type budget struct {
	LimitCents int64 `json:"limitCents"`
	LeftCents  int64 `json:"leftCents"`
}

func bookOf(l Ledger, now time.Time) book {
	b := book{
		Durable: l.Durable, Up: l.Up, Read: when(l.Read), Unknown: l.Unknown, OldestUnknown: before(now, l.OldestUnknown), Faults: l.Faults,
		Named: l.Named, OwnerCount: len(l.Owners), Owners: []owner{},
	}
	for _, o := range l.Owners {
		row := owner{
			Name: o.Name, Orders: o.Orders, SpentCents: o.SpentCents, RefundedCents: o.RefundedCents, ReservedCents: o.ReservedCents,
			UnconfirmedCents: o.UnconfirmedCents, Unknown: o.Unknown, OldestUnknown: before(now, o.OldestUnknown),
			PendingEvents: o.PendingEvents, GivenUpEvents: o.GivenUpEvents, OldestEvent: before(now, o.OldestEvent),
		}
		for _, one := range o.Budgets {
			left := &budget{one.LimitCents, one.LeftCents}
			if one.Window == "day" {
				row.Day = left
			} else {
				row.Month = left
			}
		}
		b.Owners = append(b.Owners, row)
	}
	slices.SortFunc(b.Owners, urgentFirst)
	b.Owners = b.Owners[:min(len(b.Owners), shownOwners)]
	return b
}

// before is a time so long ago; nil for no time.
func before(now time.Time, age time.Duration) *time.Time {
	if age == 0 {
		return nil
	}
	return when(now.Add(-age))
}

func urgentFirst(a, b owner) int {
	return cmp.Or(cmp.Compare(b.Unknown, a.Unknown), cmp.Compare(a.left(), b.left()), strings.Compare(a.Name, b.Name))
}

// left is the share of its budgets that an owner has left, of the one with the least.
func (o owner) left() float64 {
	least := 1.0
	for _, b := range []*budget{o.Day, o.Month} {
		if b == nil {
			continue
		}
		least = min(least, float64(b.LeftCents)/max(1, float64(b.LimitCents)))
	}
	return least
}

// concerns are the sentences about the ledger.
func (b book) concerns(now time.Time, add func(grave bool, format string, args ...any)) {
	if !b.Up {
		add(true, "The ledger does not answer: orders are refused until it does. Watches of known renders go on.")
	}
	if b.Faults > 0 {
		add(true, "Two truths about an order met %d times since the start: the log has each as a fault of the book.", b.Faults)
	}
	if b.Unknown > 0 && now.Sub(*b.OldestUnknown) >= unknownLong {
		add(false, "%s no outcome, the oldest for %s: easel orders list --unknown has them.", have(b.Unknown), now.Sub(*b.OldestUnknown).Round(time.Minute))
	}
	b.eventConcerns(now, add)
	if names := b.spending(); len(names) > 0 {
		add(false, "No more than a fifth of a budget is left to %s.", strings.Join(names, ", "))
	}
}

// eventConcerns are the sentences about those who are not told.
func (b book) eventConcerns(now time.Time, add func(grave bool, format string, args ...any)) {
	var silent, given []string
	for _, o := range b.Owners {
		if o.PendingEvents > 0 && now.Sub(*o.OldestEvent) >= silentLong && len(silent) < most {
			silent = append(silent, o.Name)
		}
		if o.GivenUpEvents > 0 && len(given) < most {
			given = append(given, o.Name)
		}
	}
	if len(silent) > 0 {
		add(false, "The receiver of %s does not take events: easel events list has them.", strings.Join(silent, ", "))
	}
	if len(given) > 0 {
		add(false, "Events were given up of %s: easel events replay sends them again.", strings.Join(given, ", "))
	}
}

// spending names the owners that have hardly any budget left.
func (b book) spending() (names []string) {
	for _, o := range b.Owners {
		switch {
		case o.left() > 1-crowded:
		case len(names) == most:
			return append(names, "…")
		default:
			names = append(names, o.Name)
		}
	}
	return names
}

func have(orders int64) string {
	if orders == 1 {
		return "An order has"
	}
	return fmt.Sprintf("%d orders have", orders)
}
