//go:build unix

package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
)

// bookOrder is a row of an order in the ledger.
type bookOrder struct {
	teamOrder
	upstreamKey, generation string
	state                   lifecycle.State

	cost, refunded, reserved, unconfirmed int64 // without a cost, what counts as spent is unconfirmed
}

// open opens the ledger without the faults of connections.
func (l *ledgerWorld) open() (*sql.DB, error) { return sql.Open("pgx", l.ledger) }

// queryer is a ledger, or a snapshot of it.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each reads the rows of a query.
func each(ctx context.Context, db queryer, query string, scan func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readLedger reads all orders.
func readLedger(ctx context.Context, snapshot *sql.Tx) (all []bookOrder, err error) {
	err = each(ctx, snapshot, `SELECT owner, idempotency_key, upstream_key, COALESCE(generation_id, ''), state, COALESCE(cost_cents, 0), refunded_cents,
		reserved_cents, CASE WHEN cost_cents IS NULL THEN unconfirmed_cents ELSE 0 END FROM orders`, func(rows *sql.Rows) error {
		o := bookOrder{}
		err := rows.Scan(&o.team, &o.idempotencyKey, &o.upstreamKey, &o.generation, &o.state, &o.cost, &o.refunded, &o.reserved, &o.unconfirmed)
		all = append(all, o)
		return err
	})
	return all, err
}

// close compares the ledger with the catalog's accounts, and both with the responses to callers.
func (l *ledgerWorld) close(t *testing.T, began time.Time) error {
	t.Helper()
	db, err := l.open()
	if err != nil {
		return err
	}
	defer db.Close()
	a, err := settledAudit(l.ctx, l.catalog.now().found[0])
	if err != nil {
		return err
	}
	unsettled := l.readUnsettled(t, db)
	snapshot, before, err := l.delivered(l.ctx, db)
	if err != nil {
		return errors.Join(unsettled, err)
	}
	defer func() { _ = snapshot.Rollback() }() // it was only read
	orders, err := readLedger(l.ctx, snapshot)
	if err != nil {
		return err
	}
	t.Log(l.tally.table(l.points(), a, 0, time.Since(began)) + l.books.table() + l.memory.table())
	if missing := l.tally.missing(l.points()); len(missing) > 0 {
		t.Errorf("never happened: %q", missing)
	}
	for _, owner := range l.facades {
		if owner.starts.Load() < 2 {
			t.Error("one of the facades was not there, or never killed")
		}
	}
	if len(l.memory.refused) == 0 || l.memory.dropped == 0 {
		t.Error("no budget was spent, or no order was given up")
	}
	return errors.Join(unsettled, errors.Join(l.memory.faults...), verifyBook(l.ctx, l.ledger), compareOrders(orders, a), compareAnswers(l.memory, orders), l.compareSums(l.ctx, t, snapshot, orders, a), l.compareEvents(l.ctx, t, snapshot, before))
}

// verifyBook adds the journal of a ledger up, as easel ledger verify does.
func verifyBook(ctx context.Context, url string) error {
	var faults []error
	looked, err := ledger.Verify(ctx, url, func(d ledger.Difference) { faults = append(faults, errors.New(d.String())) })
	if err == nil && looked.Orders == 0 {
		err = errors.New("the ledger that was verified has no orders")
	}
	return errors.Join(err, some(faults))
}

// readUnsettled reads each unsettled generation once as its owner, because a replica reads only ten of them a minute.
func (l *ledgerWorld) readUnsettled(t *testing.T, db *sql.DB) error {
	t.Helper()
	left := map[string]string{}
	err := each(l.ctx, db, `SELECT generation_id, owner FROM orders WHERE state = 2 AND settled = 0`, func(rows *sql.Rows) error {
		generation, owner := "", ""
		err := rows.Scan(&generation, &owner)
		left[generation] = owner
		return err
	})
	var reads errgroup.Group
	reads.SetLimit(8)
	for generation, owner := range left {
		reads.Go(func() error { return l.read(generation, owner) })
	}
	err = errors.Join(err, reads.Wait())
	took, unsettled := l.none(db, "unsettled", "state = 2 AND settled = 0", settledWithin)
	t.Logf("%d orders were read once more, and settled within %v", len(left), took.Round(100*time.Millisecond))
	return errors.Join(err, unsettled)
}

func (l *ledgerWorld) read(generation, owner string) error {
	ctx, cancel := context.WithTimeout(bearing(l.ctx, l.tokens[owner]), 10*time.Second)
	defer cancel()
	request := &easelv1.GetGenerationRequest{GenerationId: generation, MaxStaleness: durationpb.New(0)}
	if _, err := l.clients[owner].GetGeneration(ctx, request, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("%s of %s is not answered: %w", generation, owner, err)
	}
	return nil
}

func (m *memory) table() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("  %d orders known to callers, %d given up by them, %d refused for want of budget\n", len(m.ids), m.dropped, len(m.refused))
}

// compareOrders compares each order of the ledger with the generations of the catalog.
func compareOrders(orders []bookOrder, a sandbox.Audit) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	placed := map[string]bookOrder{}
	for _, o := range orders {
		switch {
		case o.state == lifecycle.Open:
			fault("%v is unknown", o.teamOrder)
		case o.state == lifecycle.Refused && o.cost+o.refunded+o.reserved+o.unconfirmed != 0:
			fault("%v is refused, and costs something", o.teamOrder)
		case o.state == lifecycle.Placed && placed[o.generation].generation != "":
			fault("%s is of %v and %v", o.generation, o.teamOrder, placed[o.generation].teamOrder)
		case o.state == lifecycle.Placed:
			placed[o.generation] = o
		}
	}
	sent := map[string]string{}
	for _, g := range a.Generations {
		o, known := placed[g.ID]
		switch {
		case sent[g.IdempotencyKey] != "":
			fault("%v was ordered twice: %s and %s", o.teamOrder, sent[g.IdempotencyKey], g.ID)
		case !known || o.upstreamKey != g.IdempotencyKey:
			fault("%s is nobody's, or another's than the catalog says", g.ID)
		case o.cost != g.CostCents || g.Charges != 1 || o.refunded != g.CostCents*int64(g.Refunds):
			fault("%v has cost %d, %d times, with %d refunds, and the ledger says %d and %d", o.teamOrder, g.CostCents, g.Charges, g.Refunds, o.cost, o.refunded)
		}
		sent[g.IdempotencyKey] = g.ID
	}
	if len(placed) != len(a.Generations) {
		fault("the ledger has %d generations, and the catalog %d", len(placed), len(a.Generations))
	}
	return some(faults)
}

// compareAnswers compares the responses to callers with the ledger.
func compareAnswers(m *memory, orders []bookOrder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var faults []error
	placed, owners := map[teamOrder]string{}, map[string]string{}
	for _, o := range orders {
		if o.state == lifecycle.Placed {
			placed[o.teamOrder], owners[o.generation] = o.generation, o.team
		}
	}
	for o, id := range m.ids {
		if placed[o] != id {
			faults = append(faults, fmt.Errorf("%v was reported as %s, and the ledger says %q", o, id, placed[o]))
		}
	}
	for o := range m.refused {
		if m.ids[o] == "" && placed[o] != "" {
			faults = append(faults, fmt.Errorf("%v was refused for want of budget, and is %s:\n%s", o, placed[o], strings.Join(m.calls[o], "\n")))
		}
	}
	for o, maybe := range m.maybe {
		if !maybe && placed[o] != "" {
			faults = append(faults, fmt.Errorf("%v was placed in no call, and is %s:\n%s", o, placed[o], strings.Join(m.calls[o], "\n")))
		}
	}
	for id, team := range m.seen {
		if owners[id] != team {
			faults = append(faults, fmt.Errorf("%s was shown %s, which is %q's", team, id, owners[id]))
		}
	}
	return some(faults)
}

// compareSums compares what each team has spent: in the catalog's books, in the orders, and in the budgets.
func (l *ledgerWorld) compareSums(ctx context.Context, t *testing.T, snapshot *sql.Tx, orders []bookOrder, a sandbox.Audit) error {
	var faults []error
	teamOf, charged, written := map[string]string{}, map[string]int64{}, map[string]int64{}
	for _, o := range orders {
		teamOf[o.upstreamKey] = o.team
		written[o.team] += o.cost
	}
	for _, g := range a.Generations {
		charged[teamOf[g.IdempotencyKey]] += g.CostCents * int64(g.Charges)
	}
	for _, team := range teams {
		t.Logf("%s: %d cents in the catalog's books, %d in the ledger", team, charged[team], written[team])
		if charged[team] != written[team] {
			faults = append(faults, fmt.Errorf("%s has spent %d, and the ledger says %d", team, charged[team], written[team]))
		}
	}
	return errors.Join(some(faults), l.compareBudgets(ctx, snapshot, orders))
}

// compareBudgets compares the budgets with the orders, and with their limits.
func (l *ledgerWorld) compareBudgets(ctx context.Context, snapshot *sql.Tx, orders []bookOrder) error {
	var faults []error
	spent, placed, seen := map[string]int64{}, map[string]int64{}, map[string]int{}
	for _, o := range orders {
		spent[o.team] += o.cost - o.refunded + o.unconfirmed
		if o.state == lifecycle.Placed {
			placed[o.team]++
		}
	}
	err := each(ctx, snapshot, `SELECT owner, period, SUM(spent_cents), SUM(reserved_cents), MAX(spent_cents + reserved_cents), SUM(orders) FROM budgets GROUP BY owner, period`,
		func(rows *sql.Rows) error {
			team, period, total, reserved, most, count := "", "", int64(0), int64(0), int64(0), int64(0)
			if err := rows.Scan(&team, &period, &total, &reserved, &most, &count); err != nil {
				return err
			}
			seen[team]++
			if count != placed[team] {
				faults = append(faults, fmt.Errorf("the budget of the %s of %s counts %d orders, and there are %d", period, team, count, placed[team]))
			}
			if total != spent[team] || reserved != 0 {
				faults = append(faults, fmt.Errorf("the budget of the %s of %s has %d spent and %d reserved, and its orders %d", period, team, total, reserved, spent[team]))
			}
			if limit := l.limits[team]; limit > 0 && most > limit {
				faults = append(faults, fmt.Errorf("%s has spent %d of %d in a %s", team, most, limit, period))
			}
			return nil
		})
	for team := range placed {
		if seen[team] != 2 {
			faults = append(faults, fmt.Errorf("%s has placed orders, and budgets of %d periods, want a day and a month", team, seen[team]))
		}
	}
	return errors.Join(err, some(faults))
}
