package simulation

import (
	"cmp"
	"crypto/sha256"
	"database/sql/driver"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// change is a new version of an order in the ledger. All times are in the world's time.
type change struct {
	at                                    time.Duration
	id, owner, caller, key, apiKey        string // key is the upstream key
	state                                 lifecycle.State
	generation                            string
	claims                                int
	until                                 time.Duration // end of the claim
	written                               time.Duration
	reserved, cost, refunded, unconfirmed int64 // cost is negative if it is unknown
	settled, deleted                      bool
	status                                lifecycle.Status
	time                                  time.Time // when it was written, by the database's clock
}

// live reports whether the idempotency key is not free.
func (c change) live() bool { return c.state == lifecycle.Open || c.state == lifecycle.Placed }

// spent returns the amount that budgets count.
func (c change) spent() int64 {
	if c.cost < 0 {
		return c.unconfirmed
	}
	return max(c.cost-c.refunded, c.unconfirmed)
}

// most returns the maximum charge that the ledger can know. If a generation was deleted before it
// finished, the ledger knows only the cost that was reported until then.
func (c change) most() int64 {
	if c.deleted && c.status < lifecycle.Failed {
		return c.cost
	}
	return math.MaxInt64
}

// budgetChange is a new version of a budget.
type budgetChange struct {
	at              time.Duration
	owner, period   string
	start           time.Time
	spent, reserved int64
}

// window identifies a budget by owner, period and start.
type window struct {
	owner, period string
	start         time.Time
}

// windows returns the budgets that an order counts toward.
func (c change) windows() []window {
	y, m, d := c.time.Date()
	return []window{
		{c.owner, "day", time.Date(y, m, d, 0, 0, 0, 0, time.UTC)}, {c.owner, "month", time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)},
	}
}

// readJournal reads the changes that the database has recorded.
func (w *world) readJournal(o *outcome) {
	o.homeKey = fmt.Sprintf("%x", sha256.Sum256([]byte(w.account.key)))
	w.rows(`SELECT * FROM simulated_orders ORDER BY rowid`, func(row []driver.Value) {
		number := func(n int) int64 { v, _ := row[n].(int64); return v }
		text := func(n int) string { v, _ := row[n].(string); return v }
		c := change{
			at: w.ledgerTime(number(0)), id: text(1), owner: text(2), caller: text(3), key: text(4), apiKey: text(5), state: lifecycle.State(number(6)),
			generation: text(7), claims: int(number(8)), until: w.ledgerTime(number(9)), written: w.ledgerTime(number(10)), time: time.UnixMicro(number(10)).UTC(),
			reserved: number(11), cost: number(12), refunded: number(13), unconfirmed: number(14), settled: number(15) == 1,
		}
		if row[12] == nil {
			c.cost = -1
		}
		readStates(&c, row)
		o.changes = append(o.changes, c)
	})
	w.rows(`SELECT * FROM simulated_budgets ORDER BY rowid`, func(row []driver.Value) {
		o.budgets = append(o.budgets, budgetChange{
			at: w.ledgerTime(row[0].(int64)), owner: row[1].(string), period: row[2].(string), start: time.UnixMicro(row[3].(int64)).UTC(),
			spent: row[4].(int64), reserved: row[5].(int64),
		})
	})
	o.journeys = map[string][]change{}
	for _, c := range o.changes {
		o.journeys[c.key] = append(o.journeys[c.key], c)
	}
}

func (w *world) rows(query string, each func([]driver.Value)) {
	rows, err := w.database.query(query)
	if err != nil {
		w.problem("no journal: %v", err)
		return
	}
	for row := make([]driver.Value, len(rows.Columns())); rows.Next(row) == nil; {
		each(row)
	}
}

// ledgerTime converts a time of the database's clock to the history's offset.
func (w *world) ledgerTime(micros int64) time.Duration {
	return time.UnixMicro(micros).Add(-w.plan.Skew).Sub(w.history.begin)
}

// heldAt returns the latest version of an order in the ledger at a time, by its upstream key.
func (o *outcome) heldAt(key string, at time.Duration) (held change, ok bool) {
	for _, c := range o.journeys[key] {
		if c.at <= at {
			held, ok = c, true
		}
	}
	return held, ok
}

// last returns the final version of each order, in the order of creation.
func (o *outcome) last() (all []change) {
	at := map[string]int{}
	for _, c := range o.changes {
		if n, ok := at[c.id]; ok {
			all[n] = c
			continue
		}
		at[c.id] = len(all)
		all = append(all, c)
	}
	return all
}

// placedRequests calls each for every request that placed an order, with the version of the order
// in the ledger at that time. It skips processes that were frozen, because other processes may have
// handled their orders.
func (o *outcome) placedRequests(each func(at event, r request, held change, written bool)) {
	for _, r := range o.sent() {
		if !o.plan.Ledger || r.op != routePlace || r.undialed || o.excused(r.at, r.end, r.process, "", reachReplica) {
			continue
		}
		held, ok := o.heldAt(r.key, r.at)
		each(event{at: r.at, actor: r.process, gen: r.key}, r, held, ok)
	}
}

func sentAsWritten(o *outcome, say func(event, string, ...any)) {
	o.placedRequests(func(at event, r request, held change, written bool) {
		switch {
		case !written:
			say(at, "it was sent and not written down")
		case held.state != lifecycle.Open:
			say(at, "it was sent, and the ledger had its outcome since %v", held.at)
		case held.until < r.at:
			say(at, "it was sent without a claim: the last one ended at %v", held.until)
		}
	})
	before := map[string]change{}
	for _, c := range o.changes {
		if b, ok := before[c.id]; ok && c.claims > b.claims && b.until > c.at {
			say(event{at: c.at, actor: c.owner, gen: c.key}, "claim %d was taken, and the one before is in effect until %v", c.claims, b.until)
		}
		before[c.id] = c
	}
}

func sentInTheWindow(o *outcome, say func(event, string, ...any)) {
	o.placedRequests(func(at event, r request, held change, written bool) {
		switch {
		case !written:
		case r.at > held.written+o.plan.Window:
			say(at, "it was sent %v after it was written down", r.at-held.written)
		case r.apiKey != held.apiKey:
			say(at, "it was sent under another API key than the first time")
		}
	})
}

func neverUndone(o *outcome, say func(event, string, ...any)) {
	before := map[string]change{}
	for _, c := range o.changes {
		b, at := before[c.id], event{at: c.at, actor: c.owner, gen: c.key}
		before[c.id] = c
		switch {
		case b.state == lifecycle.Placed && (c.state != lifecycle.Placed || c.generation != b.generation):
			say(at, "it was %s, and is %q in state %d", b.generation, c.generation, c.state)
		case b.state == lifecycle.Refused && c.state != lifecycle.Refused:
			say(at, "it was refused, and is in state %d", c.state)
		case b.id != "" && (c.cost < b.cost || c.refunded < b.refunded):
			say(at, "it had cost %d and %d came back; now it is %d and %d", b.cost, b.refunded, c.cost, c.refunded)
		}
	}
}

func toldAsHeld(o *outcome, say func(event, string, ...any)) {
	if !o.plan.Ledger {
		return
	}
	for _, e := range o.events {
		switch {
		case e.kind == sawPlaced:
			key := o.upstreamKey(e, e.text)
			if e.state == easelv1.State_STATE_DELETED && !o.truth[e.gen].deleted {
				say(e, "it is said to be deleted, and is not")
			}
			if !slices.ContainsFunc(o.journeys[key], func(c change) bool {
				return c.at <= e.at && c.state == lifecycle.Placed && c.generation == e.gen && c.owner == e.tenant()
			}) {
				say(e, "the ledger did not have it then")
			}
		case e.kind == sawError && e.order != "" && e.outcome == notPlaced:
			o.isNotPlaced(e, say)
		case e.kind == sawError && e.order != "" && strings.HasSuffix(e.text, "LEDGER_UNAVAILABLE"):
			for _, c := range o.journeys[o.upstreamKey(e, e.order)] {
				if c.state == lifecycle.Open && c.claims == 1 && c.at == c.written && c.at >= e.since && c.at <= e.at {
					say(e, "it was written down at %v", c.at)
				}
			}
		}
	}
}

// isNotPlaced checks that an order that was reported as not placed was so at some time during the
// call.
func (o *outcome) isNotPlaced(e event, say func(event, string, ...any)) {
	key := o.upstreamKey(e, e.order)
	held, written := o.heldAt(key, e.since)
	free := !written || !held.live()
	for _, c := range o.journeys[key] {
		free = free || c.at > e.since && c.at <= e.at && !c.live()
	}
	if !free {
		say(e, "the ledger had the order all the time")
	}
	for _, g := range o.books["held"].Generations {
		if born := g.CreatedAt.Sub(o.begin); g.IdempotencyKey == key && born < e.since {
			say(e, "it was placed as %s at %v", g.ID, born)
		}
	}
}

func everyCentHasAName(o *outcome, say func(event, string, ...any)) {
	if !o.plan.Ledger {
		return
	}
	named, open := map[string]change{}, map[string]bool{}
	for _, c := range o.last() {
		at := event{at: c.at, actor: c.owner, gen: c.generation}
		if other, twice := named[c.generation]; twice && c.generation != "" {
			say(at, "it is the order of %s too", other.owner)
		}
		if c.caller != callerOf(c.owner) && c.caller != callerOf(guest) {
			say(at, "%s has not ordered it", c.caller)
		}
		named[c.generation] = c
		open[c.key] = open[c.key] || c.state == lifecycle.Open
	}
	refunds := map[string]int64{}
	for _, e := range o.books["held"].Entries {
		if e.Kind == "refund" {
			refunds[e.GenerationID] = e.Cents
		}
	}
	for _, g := range o.books["held"].Generations {
		c, ok := named[g.ID]
		at := event{actor: c.owner, gen: g.ID}
		switch {
		case isPast(g.IdempotencyKey):
		case !ok && !open[g.IdempotencyKey]:
			say(at, "%d cents of the account are nobody's", g.CostCents)
		case ok && c.key != g.IdempotencyKey:
			say(at, "it was ordered under %s, and the ledger has it under %s", g.IdempotencyKey, c.key)
		case ok && c.cost >= 0 && c.cost != min(g.CostCents, c.most()):
			say(at, "it has cost %d, and the ledger says %d", g.CostCents, c.cost)
		case ok && !g.Deleted && c.cost >= 0 && dialect(o.plan.Dialect).Refund != sandbox.RefundSilent && c.refunded != refunds[g.ID] && !o.leftAlone(g.ID):
			say(at, "%d cents came back, and the ledger says %d", refunds[g.ID], c.refunded)
		}
		delete(named, g.ID)
	}
	for id, c := range named {
		if id != "" {
			say(event{at: c.at, actor: c.owner, gen: id}, "the ledger has it, and the catalog's books do not")
		}
	}
}

// budgetsHold checks the budgets at every moment, in the ledger and in the sandbox's accounts.
func budgetsHold(o *outcome, say func(event, string, ...any)) {
	limit := map[string]int64{"day": o.plan.Budget, "month": o.plan.Budget * 3 / 2}
	above, _ := o.excess()
	for _, b := range o.budgets {
		if b.owner == thrifty && b.spent+b.reserved > limit[b.period]+above[window{b.owner, b.period, b.start}] {
			say(event{at: b.at, actor: b.owner}, "%d cents are spent and %d reserved of %d of a %s", b.spent, b.reserved, limit[b.period], b.period)
			return
		}
	}
	written := map[string]change{}
	for _, c := range o.changes {
		if _, ok := written[c.key]; !ok || c.generation != "" {
			written[c.key] = c
		}
	}
	sum := map[window]int64{}
	for _, e := range o.books["held"].Entries {
		key := ""
		for _, g := range o.books["held"].Generations {
			if g.ID == e.GenerationID {
				key = g.IdempotencyKey
			}
		}
		c, ok := written[key]
		if !ok || c.owner != thrifty {
			continue
		}
		for _, at := range c.windows() {
			if sum[at] -= e.Cents; sum[at] > limit[at.period]+above[at] {
				say(event{at: e.Time.Sub(o.begin), actor: thrifty, gen: e.GenerationID}, "the catalog has charged %d cents in a %s with %d", sum[at], at.period, limit[at.period])
				return
			}
		}
	}
}

func moneyAddsUp(o *outcome, say func(event, string, ...any)) {
	budgets, sums := map[window][2]int64{}, map[window][2]int64{}
	for _, b := range o.budgets {
		budgets[window{b.owner, b.period, b.start}] = [2]int64{b.spent, b.reserved}
	}
	for _, c := range o.last() {
		for _, at := range c.windows() {
			sums[at] = [2]int64{sums[at][0] + c.spent(), sums[at][1] + c.reserved}
		}
		if c.state == lifecycle.Refused && (c.reserved != 0 || c.spent() != 0) {
			say(event{at: c.at, actor: c.owner, gen: c.key}, "it was refused, and holds money")
		}
	}
	for at, sum := range sums {
		if sum != budgets[at] {
			say(event{at: o.end, actor: at.owner}, "the orders of the %s have spent and reserved %v, and its budget says %v", at.period, sum, budgets[at])
		}
	}
}

func journalAddsUp(o *outcome, say func(event, string, ...any)) {
	for _, difference := range o.unlike {
		say(event{at: o.end}, "%s", difference)
	}
}

func knownInAMinute(o *outcome, say func(event, string, ...any)) {
	const minute = time.Minute + 5*time.Second // the last of them takes a while
	known := map[string]time.Duration{}
	for _, c := range o.changes {
		if _, ok := known[c.id]; !ok && c.state != lifecycle.Open {
			known[c.id] = c.at
		}
	}
	for _, c := range o.last() {
		when, ok := known[c.id]
		if !ok {
			when = o.end
		}
		due := max(o.healed, c.written) + minute
		if when > due && c.apiKey == o.homeKey && c.written+o.plan.Window > due {
			say(event{at: c.written, actor: c.owner, gen: c.key}, "its outcome is not known %v after all was well again (%v)", when-max(o.healed, c.written), cmp.Or(c.generation, "never"))
		}
	}
}

// settledInTheEnd checks that an order is settled if its generation ended a minute before the last
// watch ended.
func settledInTheEnd(o *outcome, say func(event, string, ...any)) {
	for _, c := range o.last() {
		one := o.truth[c.generation]
		over := one.state == catalog.StateSucceeded || one.state == catalog.StateRefunded
		if c.state == lifecycle.Placed && !c.settled && over && c.at < o.alone-time.Minute && one.ended < o.alone-time.Minute && !o.leftAlone(c.generation) {
			say(event{at: o.end, actor: c.owner, gen: c.generation}, "it is %v since %v, and its money is not settled", one.state, one.ended)
		}
	}
}

// leftAlone reports whether the settle job failed to read a generation, which it then skips for ten
// minutes.
func (o *outcome) leftAlone(generation string) bool {
	return slices.ContainsFunc(o.requests, func(r request) bool {
		return !r.poll && r.op == routeRead && path.Base(r.path) == generation && r.at > o.end-10*time.Minute && r.status != 200
	})
}
