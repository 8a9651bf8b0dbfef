package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

const (
	bulkRows = 1200 // number of rows that each kind of bulk work processes
	maxStep  = 100  // maximum number of rows that one transaction may change
)

// bulkWork describes work that processes many rows of a table. It contains the statement that inserts the rows, and
// an SQL condition for the rows that have not been processed yet.
type bulkWork struct {
	table, rows, left string
	jobs              bool // whether each event also needs a delivery job
	do                func(ctx context.Context, l *ledger.Ledger) error
}

// eventsOf returns a statement that writes an event of the given age for each number n. In the statement, {numbers}
// must be replaced with the result of seriesOf.
func eventsOf(state ledger.EventState, age time.Duration) string {
	return fmt.Sprintf(`INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time)
		SELECT 'evt_' || n, 'studio', 'easel.generation.succeeded', 'gen_' || n, 1, 0, '%s', %d, %[3]d + n FROM {numbers}`,
		strings.Repeat("x", 600), state, time.Now().Add(-age).UnixMicro())
}

// ordersOf returns a statement that inserts orders of the given age, one for each number in {numbers}. This
// placeholder must be replaced with the result of seriesOf.
func ordersOf(owner string, state lifecycle.State, age time.Duration) string {
	generation, settled := "NULL", 0
	if state == lifecycle.Placed {
		generation, settled = "'gen_' || n", 1
	}
	return fmt.Sprintf(`INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, state, leases, leased_until,
		order_time, retry_time, generation_id, placed_time, reserved_cents, record, settled)
		SELECT 'ord_' || n, %[1]s, %[1]s, '', 'key-' || n, 'key-' || n, 'a', 'm', 'd', %[2]d, 1, 0, %[3]d + n, 0, %[4]s, 1, 0, '%[6]s', %[5]d FROM {numbers}`,
		owner, state, time.Now().Add(-age).UnixMicro(), generation, settled, strings.Repeat("x", 600))
}

var (
	bulkWorks = map[string]bulkWork{
		"replay of events":            {"events", eventsOf(ledger.EventGivenUp, time.Hour), "state = 2", false, replay},
		"abandoning of events":        {"events", eventsOf(ledger.EventPending, 25*time.Hour), "state = 0", true, giveUp},
		"deletion of old events":      {"events", eventsOf(ledger.EventSent, 8*24*time.Hour), "TRUE", false, forgetEvents},
		"deletion of rejected orders": {"orders", ordersOf("'studio'", lifecycle.Refused, 48*time.Hour), "state = 3", false, forgetRefused},
		"erasure of old orders":       {"orders", ordersOf("'studio'", lifecycle.Placed, 48*time.Hour), "settled = 1 AND erased = 0", false, retain},
	}
	bulkWorksInMemory = map[string]bulkWork{
		"deletion of old orders":  {"orders", ordersOf("'studio'", lifecycle.Placed, 48*time.Hour), "owner = 'studio'", false, prune},
		"deletion of many orders": {"orders", ordersOf("'team' || (n % 2)", lifecycle.Placed, time.Hour), "owner LIKE 'team%'", false, prune},
	}
)

func replay(ctx context.Context, l *ledger.Ledger) (err error) {
	for next := new(ledger.EventPosition); next != nil && err == nil; {
		_, next, err = l.Replay(ctx, ledger.EventFilter{Owner: "studio", Since: time.Now().Add(-48 * time.Hour), GivenUp: true}, *next, ada)
	}
	return err
}

func giveUp(ctx context.Context, l *ledger.Ledger) error {
	_, err := l.GiveUp(ctx, "studio")
	return err
}

func forgetEvents(ctx context.Context, l *ledger.Ledger) error { return l.ForgetEvents(ctx) }

func forgetRefused(ctx context.Context, l *ledger.Ledger) error {
	_, err := l.ForgetRefused(ctx)
	return err
}

func retain(ctx context.Context, l *ledger.Ledger) error {
	_, err := l.Retain(ctx)
	return err
}

func prune(ctx context.Context, l *ledger.Ledger) error {
	_, err := l.Prune(ctx, 0)
	return err
}

// seriesOf returns an SQL expression for the numbers from 0 to count-1, in the dialect of the database at url.
func seriesOf(url string, count int) string {
	if !strings.HasPrefix(url, "postgres:") {
		return fmt.Sprintf("(WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT n FROM s) AS s", count-1)
	}
	return fmt.Sprintf("generate_series(0::BIGINT, %d) AS s (n)", count-1)
}

func testBulkWork(t *testing.T, url string, work bulkWork) {
	t.Helper()
	l := openTelling(t, url, retentionConfig(24*time.Hour))
	l.Exec(t, strings.ReplaceAll(work.rows, "{numbers}", seriesOf(url, bulkRows)))
	if work.jobs {
		l.Exec(t, `INSERT INTO jobs (kind, ref, owner, line, begin_time, run_time) SELECT 'deliver', id, owner, subject, event_time, event_time FROM events`)
	}
	largest := l.CountChanges(t, work.table)
	if err := work.do(t.Context(), l); err != nil {
		t.Error(err)
	}
	if left := l.Ask(t, `SELECT CAST(COUNT(*) AS TEXT) FROM `+work.table+` WHERE `+work.left); left != "0" {
		t.Errorf("%s rows are not processed", left)
	}
	if most := largest(); most == 0 || most > maxStep {
		t.Errorf("the largest transaction changes %d rows", most)
	}
}

// While bulk work runs, an order waits for at most one step of this work.
func TestBulkOperationsRunInSmallTransactions(t *testing.T) {
	for name, work := range bulkWorks {
		t.Run(name+"/SQLite", func(t *testing.T) { testBulkWork(t, "sqlite:"+t.TempDir()+"/book.db", work) })
		t.Run(name+"/PostgreSQL", func(t *testing.T) { testBulkWork(t, proctest.Database(t), work) })
	}
	for name, work := range bulkWorksInMemory {
		t.Run(name, func(t *testing.T) { testBulkWork(t, ledger.InMemory, work) })
	}
}
