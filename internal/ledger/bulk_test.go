package ledger_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

var bulkRows = flag.Int("bulk-rows", 1200, "Number of rows for each kind of bulk work. With at least 100,000, the test also measures orders during the work.")

const (
	maxStep      = 100                   // maximum number of rows that a bulk transaction may change
	maxOrderTime = 50 * time.Millisecond // maximum p99 of an order's duration during bulk work
	timedFrom    = 100_000               // minimum number of rows for which durations are checked
)

// bulkWork is a kind of bulk work. rows is a statement that writes rows for it, and left is the condition for rows that
// it has not processed yet.
type bulkWork struct {
	table, rows, left string
	jobs              bool // whether the events have deliveries
	do                func(ctx context.Context, l *ledger.Ledger) error
}

// eventsOf returns a statement that writes events of the given age, one for each number n.
func eventsOf(state ledger.EventState, age time.Duration) string {
	return fmt.Sprintf(`INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time)
		SELECT 'evt_' || n, 'studio', 'easel.generation.succeeded', 'gen_' || n, 1, 0, '%s', %d, %[3]d + n FROM {numbers}`,
		strings.Repeat("x", 600), state, time.Now().Add(-age).UnixMicro())
}

// ordersOf returns a statement that writes orders of the given age, one for each number n.
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
		"a replay":                   {"events", eventsOf(ledger.EventGivenUp, time.Hour), "state = 2", false, replay},
		"giving events up":           {"events", eventsOf(ledger.EventPending, 25*time.Hour), "state = 0", true, giveUp},
		"deletion of old events":     {"events", eventsOf(ledger.EventSent, 8*24*time.Hour), "TRUE", false, forgetEvents},
		"deletion of refused orders": {"orders", ordersOf("'studio'", lifecycle.Refused, 48*time.Hour), "state = 3", false, forgetRefused},
		"erasure after the days":     {"orders", ordersOf("'studio'", lifecycle.Placed, 48*time.Hour), "settled = 1 AND erased = 0", false, retain},
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

// fillBulk returns a ledger with the rows that the work processes.
func fillBulk(t *testing.T, url string, work bulkWork) *ledger.Ledger {
	t.Helper()
	rows := strings.ReplaceAll(work.rows, "{numbers}", seriesOf(url, *bulkRows))
	if url == ledger.InMemory {
		l := open(t, url)
		l.Exec(t, rows)
		return l
	}
	if err := open(t, url).Close(); err != nil {
		t.Fatal(err)
	}
	var jobs []string
	if work.jobs {
		jobs = append(jobs, `INSERT INTO jobs (kind, ref, owner, line, begin_time, run_time) SELECT 'deliver', id, owner, subject, event_time, event_time FROM events`)
	}
	ledger.Fill(t, url, rows, jobs)
	return openTelling(t, url, saying(24*time.Hour))
}

// orderBeside places another team's orders until the work ends, and returns the p99 of their durations.
func orderBeside(t *testing.T, l *ledger.Ledger, work string, ended <-chan struct{}) (p99 time.Duration) {
	t.Helper()
	var all []time.Duration
	began := time.Now()
	for running := true; running; {
		r := request(fmt.Sprint(work, len(all)))
		r.Namespace, r.Owner, r.Caller, r.Labels = "shop", "shop", "shopper", nil
		wrote := time.Now()
		o, _, err := l.Write(t.Context(), r)
		all = append(all, time.Since(wrote))
		if err == nil {
			_, err = l.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "gen_beside_" + o.ID, Written: &o})
		}
		if err != nil {
			t.Errorf("an order is refused: %v", err)
		}
		select {
		case <-ended:
			running = false
		default:
		}
	}
	slices.Sort(all)
	p99 = all[len(all)*99/100]
	t.Logf("%d orders beside %s of %v: p50 %v, p99 %v, the slowest %v", len(all), work, time.Since(began).Round(time.Millisecond), all[len(all)/2], p99, all[len(all)-1])
	return p99
}

func testBulkWork(t *testing.T, url string, work bulkWork) {
	t.Helper()
	l := fillBulk(t, url, work)
	largest := func() int { return maxStep }
	if *bulkRows < timedFrom { // counting would slow down the measured orders
		largest = l.CountChanges(t, work.table)
	}
	ended := make(chan struct{})
	begin := func() {
		defer close(ended)
		if err := work.do(t.Context(), l); err != nil {
			t.Error(err)
		}
	}
	if *bulkRows >= timedFrom {
		quiet := make(chan struct{})
		time.AfterFunc(3*time.Second, func() { close(quiet) })
		orderBeside(t, l, "nothing", quiet)
		go begin()
		if took := orderBeside(t, l, "the work", ended); took > maxOrderTime {
			t.Errorf("one in 100 orders takes %v", took)
		}
	} else {
		begin()
	}
	if left := l.Ask(t, `SELECT CAST(COUNT(*) AS TEXT) FROM `+work.table+` WHERE `+work.left); left != "0" {
		t.Errorf("%s rows are left", left)
	}
	if most := largest(); most == 0 || most > maxStep {
		t.Errorf("a transaction changes %d rows", most)
	}
}

// An order waits for at most one step of the bulk work.
func TestBulkWorkIsDoneInSteps(t *testing.T) {
	for name, work := range bulkWorks {
		t.Run(name+"/SQLite", func(t *testing.T) { testBulkWork(t, "sqlite:"+t.TempDir()+"/book.db", work) })
		t.Run(name+"/PostgreSQL", func(t *testing.T) { testBulkWork(t, proctest.Database(t), work) })
	}
	for name, work := range bulkWorksInMemory {
		t.Run(name, func(t *testing.T) { testBulkWork(t, ledger.InMemory, work) })
	}
}
