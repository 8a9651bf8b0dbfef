package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// shownOwners is the maximum number of owners in the report.
const shownOwners = 100

// ledgerReport describes the ledger in the report.
type ledgerReport struct {
	Kind          string     `json:"kind"`  // memory, sqlite or postgres
	Means         string     `json:"means"` // the kind in words, for display
	Up            bool       `json:"up"`
	Read          *time.Time `json:"read"`
	Unknown       int64      `json:"unknown"`
	OldestUnknown *time.Time `json:"oldestUnknown"`
	Faults        int64      `json:"faults"`
	Named         bool       `json:"named"` // whether owners have names
	OwnerCount    int        `json:"ownerCount"`
	Owners        []owner    `json:"owners"` // at most 100, sorted by unknown orders, then by remaining budget
}

type owner struct {
	Name             string     `json:"owner"`
	Orders           int64      `json:"orders"`
	SpentCents       int64      `json:"spentCents"` // amount charged, refunds not subtracted
	RefundedCents    int64      `json:"refundedCents"`
	ReservedCents    int64      `json:"reservedCents"`
	UnconfirmedCents int64      `json:"unconfirmedCents"` // part of the spent amount
	Day              *budget    `json:"day"`              // null if there is no limit
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

func ledgerReportOf(l ledger.Reading, now time.Time) ledgerReport {
	b := ledgerReport{
		Kind: l.Kind, Means: ledger.Meaning(l.Kind), Up: l.Up, Read: when(l.Time), Unknown: l.Unknown, OldestUnknown: oldest(now, l.Unknown, l.OldestUnknown), Faults: l.Faults,
		Named: l.Named, OwnerCount: len(l.Owners), Owners: []owner{},
	}
	events := map[string]ledger.EventSummary{}
	for _, e := range l.Events {
		events[e.Owner] = e
	}
	for _, o := range l.Owners {
		told := events[o.Owner]
		row := owner{
			Name: o.Owner, Orders: o.Orders, SpentCents: o.SpentCents, RefundedCents: o.RefundedCents, ReservedCents: o.ReservedCents,
			UnconfirmedCents: o.UnconfirmedCents, Unknown: o.Unknown, OldestUnknown: oldest(now, o.Unknown, o.OldestUnknown),
			PendingEvents: told.Pending, GivenUpEvents: told.GivenUp, OldestEvent: oldest(now, told.Pending, told.Oldest),
		}
		for _, one := range o.Budgets {
			left := &budget{one.LimitCents, one.LeftCents()}
			if one.Period == "day" {
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

// oldest converts the age of the oldest item to a time. It returns nil if count is 0. An age may be negative, because the
// database's clock may have been corrected.
func oldest(now time.Time, count int64, age time.Duration) *time.Time {
	if count == 0 {
		return nil
	}
	return when(now.Add(-max(0, age)))
}

func urgentFirst(a, b owner) int {
	return cmp.Or(cmp.Compare(b.Unknown, a.Unknown), cmp.Compare(a.left(), b.left()), strings.Compare(a.Name, b.Name))
}

// left returns the smallest remaining share of the owner's budgets.
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
