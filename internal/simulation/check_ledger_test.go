package simulation

import (
	"cmp"
	"crypto/sha256"
	"database/sql/driver"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// readJournal reads the changes to orders and budgets from the journal tables of the database.
func (w *world) readJournal(o *outcome) {
	o.homeKey = fmt.Sprintf("%x", sha256.Sum256([]byte(w.account.key)))
	w.rows(`SELECT * FROM simulated_orders ORDER BY rowid`, func(row []driver.Value) {
		number := func(n int) int64 { v, _ := row[n].(int64); return v }
		text := func(n int) string { v, _ := row[n].(string); return v }
		c := promises.Version{
			At: w.ledgerTime(number(0)), ID: text(1), Owner: text(2), Caller: text(3), Key: text(4), APIKey: text(5), State: lifecycle.State(number(6)),
			Generation: text(7), Leases: int(number(8)), LeaseUntil: w.ledgerTime(number(9)), Written: w.ledgerTime(number(10)), Time: time.UnixMicro(number(10)).UTC(),
			Reserved: number(11), Cost: number(12), Refunded: number(13), Unconfirmed: number(14), Settled: number(15) == 1,
		}
		if row[12] == nil {
			c.Cost = -1
		}
		c.Status, c.Deleted = lifecycle.Status(number(16)), number(17) == 1
		o.Versions = append(o.Versions, c)
	})
	w.rows(`SELECT * FROM simulated_budgets ORDER BY rowid`, func(row []driver.Value) {
		o.Budgets = append(o.Budgets, promises.BudgetVersion{
			At: w.ledgerTime(row[0].(int64)), Owner: row[1].(string), Period: row[2].(string), Start: time.UnixMicro(row[3].(int64)).UTC(),
			Spent: row[4].(int64), Reserved: row[5].(int64),
		})
	})
	o.journeys = map[string][]promises.Version{}
	for _, c := range o.Versions {
		o.journeys[c.Key] = append(o.journeys[c.Key], c)
	}
}

func (w *world) rows(query string, each func([]driver.Value)) {
	rows, err := w.database.query(query)
	if err != nil {
		w.recordProblem("no journal: %v", err)
		return
	}
	for row := make([]driver.Value, len(rows.Columns())); rows.Next(row) == nil; {
		each(row)
	}
}

// ledgerTime converts a time on the database's clock to the time since the start of the run's event history.
func (w *world) ledgerTime(micros int64) time.Duration {
	return time.UnixMicro(micros).Add(-w.plan.Skew).Sub(w.history.Begin)
}

// versionAt returns the version of an order that was in the ledger at the given time. key is the idempotency key that
// Easel sends to the catalog for this order. ok is false if the order was not in the ledger yet.
func (o *outcome) versionAt(key string, at time.Duration) (held promises.Version, ok bool) {
	for _, c := range o.journeys[key] {
		if c.At <= at {
			held, ok = c, true
		}
	}
	return held, ok
}

// visitPlacedRequests calls fn for every request that places an order. fn receives the version of the order that was in
// the ledger when the request was sent, and whether the ledger contained the order. Requests from dead or frozen processes
// are skipped, because other processes may have handled their orders.
func (o *outcome) visitPlacedRequests(fn func(at promises.Event, r request, version promises.Version, wasWritten bool)) {
	for _, r := range o.sentRequests() {
		if !o.plan.Ledger || r.op != routePlace || r.undialed || o.isExcused(r.at, r.end, r.process, "", reachReplica) {
			continue
		}
		held, ok := o.versionAt(r.key, r.at)
		fn(promises.Event{At: r.at, Actor: r.process, Generation: r.key}, r, held, ok)
	}
}

func sentAsWritten(o *outcome, say promises.Say) {
	o.visitPlacedRequests(func(at promises.Event, r request, held promises.Version, written bool) {
		switch {
		case !written:
			say(at, "the order was sent, but not written to the ledger")
		case held.State != lifecycle.Open:
			say(at, "the order was sent, but the ledger had its outcome since %v", held.At)
		case held.LeaseUntil < r.at:
			say(at, "the order was sent without a lease, because the last lease ended at %v", held.LeaseUntil)
		}
	})
	before := map[string]promises.Version{}
	for _, c := range o.Versions {
		if b, ok := before[c.ID]; ok && c.Leases > b.Leases && b.LeaseUntil > c.At {
			say(promises.Event{At: c.At, Actor: c.Owner, Generation: c.Key}, "lease %d was acquired while the previous lease was in effect, until %v", c.Leases, b.LeaseUntil)
		}
		before[c.ID] = c
	}
}

func sentInTheWindow(o *outcome, say promises.Say) {
	o.visitPlacedRequests(func(at promises.Event, r request, held promises.Version, written bool) {
		switch {
		case !written:
		case r.at > held.Written+o.plan.Window:
			say(at, "the order was sent %v after it was written to the ledger", r.at-held.Written)
		case r.apiKey != held.APIKey:
			say(at, "the order was sent with a different API key than at the first attempt")
		}
	})
}

func toldAsHeld(o *outcome, say promises.Say) {
	if !o.plan.Ledger {
		return
	}
	for _, e := range o.Events {
		switch {
		case e.Kind == promises.Placed:
			key := o.UpstreamKey(e, e.Text)
			if e.State == easelv1.State_STATE_DELETED && !o.Truth[e.Generation].Deleted {
				say(e, "the generation is reported as deleted, but exists")
			}
			if !slices.ContainsFunc(o.journeys[key], func(c promises.Version) bool {
				return c.At <= e.At && c.State == lifecycle.Placed && c.Generation == e.Generation && c.Owner == e.Owner()
			}) {
				say(e, "the ledger did not have the order at that time")
			}
		case e.Kind == promises.Failed && e.Order != "" && strings.HasSuffix(e.Text, "LEDGER_UNAVAILABLE"):
			for _, c := range o.journeys[o.UpstreamKey(e, e.Order)] {
				if c.State == lifecycle.Open && c.Leases == 1 && c.At == c.Written && c.At >= e.Since && c.At <= e.At {
					say(e, "the order was written to the ledger at %v", c.At)
				}
			}
		}
	}
}

func knownInAMinute(o *outcome, say promises.Say) {
	const minute = time.Minute + 5*time.Second // includes a tolerance of five seconds
	known := map[string]time.Duration{}
	for _, c := range o.Versions {
		if _, ok := known[c.ID]; !ok && c.State != lifecycle.Open {
			known[c.ID] = c.At
		}
	}
	for _, c := range o.Orders() {
		when, ok := known[c.ID]
		if !ok {
			when = o.End
		}
		due := max(o.Healed, c.Written) + minute
		if when > due && c.APIKey == o.homeKey && c.Written+o.plan.Window > due {
			say(promises.Event{At: c.Written, Actor: c.Owner, Generation: c.Key}, "the order's outcome was not known %v after all faults had ended (%v)", when-max(o.Healed, c.Written), cmp.Or(c.Generation, "never"))
		}
	}
}

// settledInTheEnd checks that orders are settled if their generations succeeded or were refunded. It skips orders that
// changed, and generations that ended, less than a minute before the end of the last watch. It also skips generations
// that the settlement job failed to read in the last ten minutes of the run, because the job skips them for ten minutes.
func settledInTheEnd(o *outcome, say promises.Say) {
	for _, c := range o.Orders() {
		one := o.Truth[c.Generation]
		over := one.State == catalog.StateSucceeded || one.State == catalog.StateRefunded
		if c.State == lifecycle.Placed && !c.Settled && over && c.At < o.alone-time.Minute && one.Ended < o.alone-time.Minute && !o.isLeftAlone(c.Generation) {
			say(promises.Event{At: o.End, Actor: c.Owner, Generation: c.Generation}, "the generation is %v since %v, but the order is not settled", one.State, one.Ended)
		}
	}
}

// isLeftAlone reports whether the settlement job failed to read a generation in the last ten minutes of the run. The
// job skips such a generation for ten minutes.
func (o *outcome) isLeftAlone(generation string) bool {
	return slices.ContainsFunc(o.requests, func(r request) bool {
		return !r.poll && r.op == routeRead && path.Base(r.path) == generation && r.at > o.End-10*time.Minute && r.status != 200
	})
}
