package promises

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// Run contains the events of a run, and the data with which they are compared.
type Run struct {
	IsShared  bool // whether callers share an API key; if so, Easel derives the idempotency keys that it sends to the catalog
	HasLedger bool // whether there is a ledger that outlives the processes
	HasEvents bool // whether teams receive events
	Begin     time.Time
	Healed    time.Duration // time from the start of the run to the end of the last fault
	End       time.Duration

	Events      []Event
	Accounts    map[string]sandbox.Audit // catalog accounts by name
	Truth       map[string]Truth         // final states in the catalog, by generation ID
	Versions    []Version                // versions of the orders in the ledger, oldest first; at least the final version of each order
	Budgets     []BudgetVersion          // versions of the budgets, oldest first; at least the final version of each budget
	Limits      map[string]ledger.Limits // budgets by team
	Differences []string                 // differences between the ledger's amounts and its journal
	Arrivals    []Arrival                // events that receivers have accepted, oldest first
	Receivers   map[string]bool          // teams that receive events

	// IsCaller reports whether a caller may place orders for an owner. If IsCaller is nil, the callers recorded with the orders
	// are not checked.
	IsCaller func(owner, caller string) bool
	// MayLie reports whether the catalog may have returned an earlier state again at the given time. Nil means never.
	MayLie func(at time.Duration) bool
	// HidesRefund reports whether the ledger may lack the refund of a generation. Nil means that the ledger has all
	// refunds.
	HidesRefund func(generation string) bool
}

// Truth is a generation's final state in the catalog.
type Truth struct {
	Owner     string
	State     catalog.State
	Ended     time.Duration // time from the start of the run to the end of the render; negative if unknown
	Refunded  time.Duration // time of the refund; negative if there was no refund
	HasFailed bool
	Deleted   bool
	Digest    string // SHA-256 of the result
}

// Version is one version of an order in the ledger. All times are relative to the start of the run, except for Time.
type Version struct {
	At                                    time.Duration
	ID, Owner, Caller, Key, APIKey        string // Key is the idempotency key that is sent to the catalog
	State                                 lifecycle.State
	Generation                            string
	Leases                                int // number of leases so far
	LeaseUntil                            time.Duration
	Written                               time.Duration
	Reserved, Cost, Refunded, Unconfirmed int64 // Cost is negative if it is unknown
	Settled, Deleted                      bool
	Status                                lifecycle.Status
	Time                                  time.Time // time when the order was written, by the database's clock
}

// IsLive reports whether the idempotency key is in use.
func (v Version) IsLive() bool { return v.State == lifecycle.Open || v.State == lifecycle.Placed }

// Spent returns the amount in cents that the budgets count as spent.
func (v Version) Spent() int64 {
	if v.Cost < 0 {
		return v.Unconfirmed
	}
	return max(v.Cost-v.Refunded, v.Unconfirmed)
}

// MaxCost returns an upper bound, in cents, for the cost in the ledger. If the generation was deleted before it ended, MaxCost
// returns Cost, because the ledger does not record a cost that the catalog reports after the deletion. Otherwise, there is no
// bound, and MaxCost returns math.MaxInt64.
func (v Version) MaxCost() int64 {
	if v.Deleted && v.Status < lifecycle.Failed {
		return v.Cost
	}
	return math.MaxInt64
}

// Budgets returns the budgets that the order counts toward.
func (v Version) Budgets() []Budget {
	y, m, d := v.Time.Date()
	return []Budget{
		{v.Owner, "day", time.Date(y, m, d, 0, 0, 0, 0, time.UTC)}, {v.Owner, "month", time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)},
	}
}

// Budget identifies a budget by owner, period and start.
type Budget struct {
	Owner, Period string
	Start         time.Time
}

// BudgetVersion is one version of a budget in the ledger.
type BudgetVersion struct {
	At              time.Duration
	Owner, Period   string
	Start           time.Time
	Spent, Reserved int64
}

// Budget returns the identity of the budget.
func (v BudgetVersion) Budget() Budget { return Budget{v.Owner, v.Period, v.Start} }

// limit returns the limit of a team's budget in cents. isLimited is false if there is no limit.
func (r *Run) limit(owner, period string) (cents int64, isLimited bool) {
	limit := map[string]*int64{"day": r.Limits[owner].DailyCents, "month": r.Limits[owner].MonthlyCents}[period]
	if limit == nil {
		return 0, false
	}
	return *limit, true
}

// Past is the prefix of the idempotency keys of orders that bypass Easel: they are sent directly to the catalog.
const Past = "past-easel-"

// IsPast reports whether the key belongs to an order that was sent directly to the catalog.
func IsPast(key string) bool { return strings.HasPrefix(key, Past) }

// UpstreamKey returns the idempotency key that the catalog receives for an order. key is the idempotency key that the
// caller chose for the order, and e is any event of that caller. UpstreamKey returns key itself if each caller has its own
// API key. If the API key is shared, it returns a hash of key and the caller's owner. Without a ledger, the owner is empty.
func (r *Run) UpstreamKey(e Event, key string) string {
	if !r.IsShared {
		return key
	}
	owner := ""
	if r.HasLedger {
		owner = e.Owner()
	}
	text := binary.BigEndian.AppendUint64([]byte("easel1"), uint64(len(owner)))
	return fmt.Sprintf("%x", sha256.Sum256([]byte(string(text)+owner+key)))
}

// AddAccount adds a catalog account to the run, with the final states of its generations.
func (r *Run) AddAccount(name string, a sandbox.Audit) {
	if r.Accounts == nil {
		r.Accounts, r.Truth = map[string]sandbox.Audit{}, map[string]Truth{}
	}
	r.Accounts[name] = a
	owners := map[string]string{}
	for _, e := range r.Events {
		if e.Kind == Ordered && r.HasLedger {
			owners[r.UpstreamKey(e, e.Text)] = e.Owner()
		}
	}
	for _, g := range a.Generations {
		one := Truth{Owner: name, Deleted: g.Deleted, Ended: -1, Refunded: -1, HasFailed: g.Refunds > 0}
		if !g.Deleted {
			one.State = statuses[g.Status]
		}
		if owner, known := owners[g.IdempotencyKey]; known {
			one.Owner = owner
		}
		r.Truth[g.ID] = one
	}
	for _, e := range a.Entries {
		if one, known := r.Truth[e.GenerationID]; known && e.Kind == "refund" {
			one.HasFailed, one.Refunded = true, e.Time.Sub(r.Begin)
			r.Truth[e.GenerationID] = one
		}
	}
}

// statuses maps the terminal statuses of generations in an account to their final states.
var statuses = map[string]catalog.State{
	"succeeded": catalog.StateSucceeded, "failed": catalog.StateFailed, "refunded": catalog.StateRefunded,
}

// Orders returns the final version of each order, oldest order first.
func (r *Run) Orders() (all []Version) {
	at := map[string]int{}
	for _, v := range r.Versions {
		if n, ok := at[v.ID]; ok {
			all[n] = v
			continue
		}
		at[v.ID] = len(all)
		all = append(all, v)
	}
	return all
}

// Excess returns the total excess of each budget, in cents. The excess of an order is its cost minus the price that was
// reserved first. orders is the number of orders with an excess. Orders that reserved nothing are ignored.
func (r *Run) Excess() (by map[Budget]int64, orders int64) {
	by = map[Budget]int64{}
	first := map[string]Version{}
	for _, v := range r.Versions {
		if _, ok := first[v.ID]; !ok {
			first[v.ID] = v
		}
	}
	for _, v := range r.Orders() {
		above := v.Cost - first[v.ID].Reserved
		if first[v.ID].Reserved == 0 || above <= 0 {
			continue
		}
		orders++
		for _, at := range v.Budgets() {
			by[at] += above
		}
	}
	return by, orders
}
