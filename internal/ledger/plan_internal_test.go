package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// The query that looks up an order's idempotency key must use indexes. Otherwise, each new order would read all
// orders of its caller or owner.
func TestIdempotencyKeyLookupUsesIndexes(t *testing.T) {
	l := openLedger(t, InMemory)
	sought := 0
	for step := range strings.Lines(explainPlan(t, l, lookUpKey, make([]any, 6)...)) {
		if !strings.Contains(step, "orders") {
			continue
		}
		if sought++; !strings.Contains(step, "INDEX") || !strings.Contains(step, "idempotency_key=?") && !strings.Contains(step, "orders_open (owner=? AND retry_time>?") &&
			!strings.Contains(step, "orders_refused (owner=? AND order_time>?") {
			t.Errorf("a step of the query plan does not use a wanted index: %q", step)
		}
	}
	if sought != 4 {
		t.Errorf("the query plan has %d steps on orders, want 4", sought)
	}
}

// These queries must use indexes. Otherwise, each query would read the complete ledger, or all orders of an
// owner.
func TestSelectiveOrderQueriesUseIndexes(t *testing.T) {
	l := openLedger(t, InMemory)
	for condition, row := range map[string]struct {
		args  []any
		steps []string
	}{
		ofGenerations + " AND " + fmt.Sprintf(whoseOwner, "$2"): {[]any{`["g1"]`, "studio"}, []string{"SEARCH orders USING INDEX orders_generation (generation_id=?)"}},
		Filter{Reserved: true}.clauses().String() + " ORDER BY order_time DESC, id DESC LIMIT 10": {nil, []string{
			"SEARCH orders USING INDEX sqlite_autoindex_orders_1 (id=?)", "SCAN orders USING INDEX orders_open", "SCAN orders USING INDEX orders_moving",
		}},
	} {
		plan := explainPlan(t, l, "SELECT id FROM orders WHERE "+condition, row.args...)
		for _, step := range row.steps {
			if !strings.Contains(plan, step) {
				t.Errorf("the query plan of %s lacks %q: %s", condition, step, plan)
			}
		}
	}
	plan := explainPlan(t, l, "SELECT id FROM orders WHERE "+byName, "name", 10)
	if strings.Contains(strings.ReplaceAll(plan, "SCAN orders USING INDEX orders_refused", ""), "SCAN orders") {
		t.Errorf("the query plan reads all orders: %s", plan)
	}
}

// The numbers of failed copies and of erased orders grow over time, so background work must not read all of them.
// Each replica counts the failed copies every 15 s, and looks for orders to erase every hour.
func TestBackgroundQueriesUseIndexes(t *testing.T) {
	proctest.OnEach(t, func(t *testing.T, url string) {
		l := openLedger(t, url)
		toErase := `SELECT id FROM orders WHERE ` + strings.NewReplacer("$1", "'studio'", "$2", "1", "$3", "100").Replace(erasable)
		for index, query := range map[string]string{"contents_failed": failedCount, "jobs_age": waitingCopies, "orders_erasable": toErase} {
			if plan := explainPlan(t, l, query); !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan") {
				t.Errorf("the query plan scans a table or does not use the wanted index: %s", plan)
			}
		}
	})
}

// A page with a filter that matches few orders must be read with an index. Otherwise, the query would read all
// orders of an owner, or of all owners.
func TestFilteredListsUseIndexes(t *testing.T) {
	proctest.OnEach(t, func(t *testing.T, url string) {
		l := openLedger(t, url)
		if strings.HasPrefix(url, "postgres:") { // makes PostgreSQL use indexes even though the table is small
			for _, setting := range []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} {
				l.Exec(t, "ALTER DATABASE "+l.Ask(t, "SELECT current_database()")+" SET "+setting+" = off")
			}
			l.Reconnect()
		}
		for index, f := range map[string]Filter{
			"orders_owner ":   {Owner: new("studio")},
			"orders_time ":    {Existing: true},
			"orders_model ":   {Owner: new("studio"), ModelID: "m"},
			"orders_failed ":  {Owner: new("studio"), Statuses: []lifecycle.Status{lifecycle.Failed}},
			"orders_deleted ": {Owner: new("studio"), Deleted: true},
			"orders_moving ":  {Unsettled: true},
			"labels_":         {Owner: new("studio"), Labels: map[string]string{"campaign": "spring", "job": "7"}},
			"labels_time ":    {Labels: map[string]string{"campaign": "spring"}, Existing: true},
		} {
			tables, c := f.pageQuery(Position{fromMicros(9), "ord_9"}, 10)
			plan := explainPlan(t, l, "SELECT id FROM "+tables+" WHERE "+c.String(), c.args...)
			if !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("the query plan of %+v is %s", f, plan)
			}
		}
		for condition, index := range map[string]string{recentlyPlaced: "orders_placed_time", recentlyEnded: "orders_ended_time"} {
			if plan := explainPlan(t, l, "SELECT id FROM orders WHERE "+condition, 1, 10); !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("the query plan of %s is %s", condition, plan)
			}
		}
		for condition, generations := range map[string]string{ofGeneration: "g1", ofGenerations: `["g1"]`} {
			if plan := explainPlan(t, l, "SELECT id FROM orders WHERE "+condition, generations); !strings.Contains(plan, "orders_generation") {
				t.Errorf("the query plan of %s is %s", condition, plan)
			}
		}
	})
}

// If an update changes an indexed column, PostgreSQL writes to all indexes on orders. An update to a non-terminal
// state must therefore not change such a column.
func TestNonterminalUpdateWritesToNoIndex(t *testing.T) {
	l := openLedger(t, proctest.Database(t))
	o, _, err := l.Write(t.Context(), Request{Namespace: "studio", Owner: "studio", IdempotencyKey: "k", APIKey: "a", ModelID: "m", PriceCents: 9})
	if err == nil {
		_, err = l.Conclude(t.Context(), o.ID, 1, Conclusion{Outcome: lifecycle.Named, Generation: "g"})
	}
	if err == nil {
		_, err = l.Observe(t.Context(), "g", Observation{Observation: lifecycle.Observation{Status: lifecycle.Queued}, Record: "{}"})
	}
	if err != nil {
		t.Fatal(err)
	}
	updated, hot := [2]int{}, [2]int{} // numbers of row updates and of HOT updates, before and after the observations; a HOT update writes to no index
	err = l.runTx(t.Context(), func(tx *transaction) error {
		count := func(n int) error {
			return tx.scanRow([]any{&updated[n], &hot[n]}, `SELECT pg_stat_get_xact_tuples_updated('orders'::regclass), pg_stat_get_xact_tuples_hot_updated('orders'::regclass)`)
		}
		if err := count(0); err != nil {
			return err
		}
		charged := int64(3)
		for _, running := range []Observation{
			{Observation: lifecycle.Observation{Status: lifecycle.Running}, Record: "{1}"},
			{Observation: lifecycle.Observation{Status: lifecycle.Running}, Record: "{1}"},
			{Observation: lifecycle.Observation{Status: lifecycle.Running, CostCents: &charged}, Record: "{2}"},
		} {
			all, err := l.lockOrders(tx, "", `generation_id = $1`, "g")
			if err != nil {
				return err
			}
			if _, err := l.recordObservation(tx, all[0], running, time.Now()); err != nil {
				return err
			}
		}
		return count(1)
	})
	if err != nil || updated[1] != updated[0]+3 || hot[1] != hot[0]+3 {
		t.Errorf("%d updates, of which %d are HOT; %v", updated[1]-updated[0], hot[1]-hot[0], err)
	}
}

// A report reads daily rollups instead of orders that have an outcome. Without rollups, a report on a
// year would read all orders of that year.
func TestUsageReportReadsOnlyRollupsAndOpenOrders(t *testing.T) {
	l := openLedger(t, InMemory)
	year := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for owner, rollups := range map[string]string{"": "SEARCH rollups USING INDEX rollups_time (start_time>?", "studio": "SEARCH rollups USING PRIMARY KEY (owner=? AND start_time>?"} {
		for _, by := range []Dimension{ByDay, ByOwner, ByCaller, ByModel} {
			q := UsageQuery{By: []Dimension{by}, Start: year, End: year.AddDate(1, 0, 0), Most: 10}
			if owner != "" {
				q.Owner = &owner
			}
			statement, args := q.statement()
			plan := explainPlan(t, l, statement, args...)
			if strings.Count(plan, " orders ") != strings.Count(plan, "orders USING INDEX orders_open") || !strings.Contains(plan, rollups) {
				t.Errorf("the query plan of %+v is %s", q, plan)
			}
		}
	}
}

// If a statement times out in the database, the ledger reports the database as busy, not as unavailable.
func TestDatabaseTimeoutReturnsBusyError(t *testing.T) {
	l := openLedger(t, proctest.Database(t))
	err := l.runTx(t.Context(), func(tx *transaction) error {
		if _, err := tx.exec(`SET LOCAL statement_timeout = 20`); err != nil {
			return err
		}
		_, err := tx.exec(`SELECT pg_sleep(10)`)
		return err
	})
	if _, busy := errors.AsType[*Busy](err); !busy {
		t.Errorf("a timeout in the database returns %v", err)
	}
}

// openLedger opens a ledger, which is closed at the end of the test.
func openLedger(t *testing.T, url string) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), Config{URL: url, Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// explainPlan returns the query plan of a statement.
func explainPlan(t *testing.T, l *Ledger, statement string, args ...any) (plan string) {
	t.Helper()
	explain := "EXPLAIN QUERY PLAN "
	if l.IsShared() {
		explain = "EXPLAIN "
	}
	rows, err := l.reads.QueryContext(t.Context(), explain+l.dialect.words.Replace(statement), args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		fields := make([]any, len(columns))
		for n := range fields {
			fields[n] = new(any)
		}
		if err := rows.Scan(fields...); err != nil {
			t.Fatal(err)
		}
		plan += fmt.Sprintln(*fields[len(fields)-1].(*any))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}
