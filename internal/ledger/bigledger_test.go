package ledger_test

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

var bigLedger = flag.Int("big-ledger", 0, "Number of orders in a large ledger to compare with a ledger of 1,000 orders, which takes minutes. Zero only checks the queries.")

const (
	smallLedger  = 1000
	filledTeams  = 20
	filledModels = 6
)

// Maximum ratios that the measurement allows.
const (
	bigLedgerRatio = 1.5 // p99 relative to the small ledger
	besideRatio    = 2.0 // p99 of an order during reports, relative to the p99 without reports
	ordersASec     = 300
)

// filledLedger is a ledger filled with orders.
type filledLedger struct {
	*ledger.Ledger
	url string
	now time.Time
	n   atomic.Int64 // number of measured orders
}

// fillLedger creates a ledger with the given number of orders, spread over a year.
func fillLedger(t *testing.T, url string, orders int) *filledLedger {
	t.Helper()
	began, now := time.Now(), time.Now().UTC().Truncate(time.Microsecond)
	if err := open(t, url).Close(); err != nil { // creates the schema
		t.Fatal(err)
	}
	ledger.Fill(t, url, fmt.Sprintf(fillOrders, seriesOf(url, orders), orders, now.UnixMicro(), filledTeams, filledModels, theAPIKey), fillRest)
	t.Logf("%s: a ledger of %d orders is made in %v", kindOf(url), orders, time.Since(began).Round(time.Second))
	return &filledLedger{Ledger: openWithTeams(t, url), url: url, now: now}
}

func kindOf(url string) string { kind, _, _ := strings.Cut(url, ":"); return kind }

// seriesOf returns an SQL expression for the numbers from 0 to many-1, in the dialect of the URL's database.
func seriesOf(url string, many int) string {
	if kindOf(url) != "postgres" {
		return fmt.Sprintf("(WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT n FROM s) AS s", many-1)
	}
	return fmt.Sprintf("generate_series(0::BIGINT, %d) AS s (n)", many-1)
}

// openWithTeams opens a ledger whose teams receive events.
func openWithTeams(t testing.TB, url string) *ledger.Ledger {
	t.Helper()
	teams := map[string]ledger.Team{}
	for n := range filledTeams {
		teams[fmt.Sprint("team", n)] = ledger.Team{Subscribed: true}
	}
	l, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: theCatalog, ResendWindow: window, Events: &ledger.EventConfig{
		Teams:      func() map[string]ledger.Team { return teams },
		Generation: func(ledger.Order, *string) string { return "{}" }, Budget: func(ledger.Budget) string { return "{}" },
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// fillOrders writes a year's orders. In each 100 orders, one has failed and one is deleted. In each 1,000, one is
// unfinished.
const fillOrders = `INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, state, leases, leased_until, order_time, retry_time, generation_id,
	placed_time, reserved_cents, cost_cents, status, failed_time, record, deleted, settled, price_cents, charge_final)
	SELECT 'ord_' || n, 'team' || (n %% %[4]d), 'team' || (n %% %[4]d), 'caller' || (n %% (2 * %[4]d)), 'key-' || n, 'upstream-' || n, '%[6]s', 'studio/model-' || ((n / %[4]d) %% %[5]d), 'd', 2, 1, 0,
		%[3]d - (%[2]d - n) * (31536000000000 / %[2]d), 0, 'gen_' || n, %[3]d - (%[2]d - n) * (31536000000000 / %[2]d), 0, 10,
		CASE WHEN n %% 1000 = 7 THEN 2 WHEN n %% 100 = 3 THEN 3 ELSE 4 END, CASE WHEN n %% 100 = 3 THEN 1 ELSE 0 END, '{"state":"succeeded"}', CASE WHEN n %% 100 = 5 THEN 1 ELSE 0 END, CASE WHEN n %% 1000 = 7 THEN 0 ELSE 1 END, 10, 1 FROM %[1]s`

// fillRest writes the rows that these orders would have caused: labels, journal entries, budgets, and a week's events.
var fillRest = []string{
	`INSERT INTO labels (order_id, name, value, order_owner, label_time) SELECT id, 'job', 'job-' || (CAST(SUBSTR(id, 5) AS BIGINT) / 20 % 100), owner, order_time FROM orders`,
	`INSERT INTO movements (order_id, number, kind, cents, move_time, actor) SELECT id, 1, 2, 10, order_time, '' FROM orders`,
	`INSERT INTO budgets (owner, period, start_time, orders, spent_cents) SELECT owner, period,
		CASE period WHEN 'day' THEN order_time / 86400000000 * 86400000000 ELSE {month of order_time} END, COUNT(*), SUM(cost_cents)
		FROM orders, (SELECT 'day' AS period UNION ALL SELECT 'month') AS periods GROUP BY 1, 2, 3`,
	`INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time) SELECT 'evt_' || id, owner, 'easel.generation.succeeded', generation_id, 1, 0, '{}',
		CASE WHEN (SELECT COUNT(*) FROM orders) - CAST(SUBSTR(id, 5) AS BIGINT) <= 10 THEN 0 ELSE 1 END, order_time FROM orders WHERE order_time > (SELECT MAX(order_time) FROM orders) - 604800000000`,
	`INSERT INTO jobs (kind, ref, owner, line, begin_time, run_time) SELECT 'deliver', id, owner, subject, event_time, event_time FROM events WHERE state = 0`,
}

// question is a measured query.
type question struct {
	name string
	ask  func(ctx context.Context, b *filledLedger) error
}

var errEmpty = errors.New("it finds nothing")

// some returns errEmpty if a query succeeded but found nothing.
func some[T any](all []T, err error) error {
	if err == nil && len(all) == 0 {
		return errEmpty
	}
	return err
}

// page queries a page in the middle of a list.
func page(f ledger.Filter) func(context.Context, *filledLedger) error {
	return func(ctx context.Context, b *filledLedger) error {
		after := ledger.Position{Time: b.now.Add(-time.Duration(mathrand.Int64N(int64(300 * 24 * time.Hour)))), ID: "ord_"}
		return some(b.List(ctx, f, after, 20))
	}
}

// usage queries a year's usage.
func usage(owner *string, by ...ledger.Dimension) func(context.Context, *filledLedger) error {
	return func(ctx context.Context, b *filledLedger) error {
		q := ledger.UsageQuery{Owner: owner, By: by, Start: b.now.AddDate(-1, 0, 0).Truncate(24 * time.Hour), End: b.now.AddDate(1, 0, 0), LabelName: "job", Most: 100}
		if !slices.Contains(by, ledger.ByLabel) {
			q.LabelName = ""
		}
		return some(b.Usage(ctx, q))
	}
}

var questions = []question{
	{"an order", placeOne},
	{"a page of a team", page(ledger.Filter{Owner: new("team1")})},
	{"a page of everybody", page(ledger.Filter{Existing: true})},
	{"a page of a model", page(ledger.Filter{Owner: new("team1"), ModelID: "studio/model-1"})},
	{"a page of failures", page(ledger.Filter{Owner: new("team3"), Statuses: []lifecycle.Status{lifecycle.Failed}})},
	{"a page of a label", page(ledger.Filter{Owner: new("team1"), Labels: map[string]string{"job": "job-7"}})},
	{"a year of a team by day", usage(new("team1"), ledger.ByDay)},
	{"a year of a team by caller", usage(new("team1"), ledger.ByCaller)},
	{"a year of a team by model", usage(new("team1"), ledger.ByModel)},
	{"a year of all by owner", usage(nil, ledger.ByOwner)},
	{"a year of all by day", usage(nil, ledger.ByDay)},
	{"the page of owners", func(ctx context.Context, b *filledLedger) error {
		s, err := b.Summary(ctx, true)
		return some(s.Owners, err)
	}},
	{"a look for deliveries", func(ctx context.Context, b *filledLedger) error {
		owners, err := b.OwnersOfJobs(ctx, ledger.DeliverJob)
		if err := some(owners, err); err != nil {
			return err
		}
		taken, err := b.TakeJobs(ctx, ledger.DeliverJob, owners[0], 16)
		for _, job := range taken {
			err = errors.Join(err, b.ReleaseJob(ctx, job))
		}
		return some(taken, err)
	}},
}

// placeOne writes an order and records its outcome.
func placeOne(ctx context.Context, b *filledLedger) error {
	r := request(fmt.Sprint("measured ", b.n.Add(1), cryptorand.Text()))
	r.Namespace, r.Owner, r.Limits = "team1", "team1", ledger.Limits{DailyCents: new(int64(1 << 40)), MonthlyCents: new(int64(1 << 40))}
	if _, step, err := b.Call(ctx, r); err != nil || step.Action != lifecycle.Write {
		return errors.Join(err, ctx.Err())
	}
	o, _, err := b.Write(ctx, r)
	if err == nil {
		_, _, err = b.Renew(ctx, o.ID, 1, theAPIKey)
	}
	if err == nil {
		_, err = b.Conclude(ctx, o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: o.ID})
	}
	return err
}

// measure runs a query in several ledgers alternately. It returns the median and the p99 for each ledger.
func measure(t *testing.T, ask func(context.Context, *filledLedger) error, times int, ledgers ...*filledLedger) (medians, p99s []time.Duration) {
	t.Helper()
	took := make([][]time.Duration, len(ledgers))
	for n := range times + times/10 {
		for at, b := range ledgers {
			began := time.Now()
			if err := ask(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if n >= times/10 { // earlier queries only warm up
				took[at] = append(took[at], time.Since(began))
			}
		}
	}
	for _, all := range took {
		slices.Sort(all)
		medians, p99s = append(medians, all[len(all)/2]), append(p99s, all[len(all)*99/100])
	}
	return medians, p99s
}

// onLedgers runs a test on each database, with data that is synced to disk. Each call of url returns the URL of a new
// database.
func onLedgers(t *testing.T, test func(t *testing.T, url func() string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		test(t, func() string { return "sqlite:" + filepath.Join(t.TempDir(), "book.db") })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		if *bigLedger == 0 {
			test(t, func() string { return proctest.Database(t) })
			return
		}
		server := proctest.StartPostgresWith(t, "shared_buffers=1GB", "max_wal_size=8GB")
		test(t, func() string { return server.Database(t) })
	})
}

// Each query must find rows. In a ledger that was filled directly, the sums must agree with the orders.
func TestAFilledLedgerAddsUp(t *testing.T) {
	onLedgers(t, func(t *testing.T, url func() string) {
		b := fillLedger(t, url(), 20_000)
		for _, q := range questions {
			if err := q.ask(t.Context(), b); err != nil {
				t.Errorf("%s: %v", q.name, err)
			}
		}
		if looked, differences := verify(t, b.url); looked.Orders < 20_000 || len(differences) > 0 {
			t.Errorf("%+v: %s", looked, strings.Join(differences[:min(len(differences), 5)], "\n"))
		}
	})
}

func TestABigLedgerIsAsQuickAsASmallOne(t *testing.T) {
	if *bigLedger == 0 {
		t.Skip("it takes minutes: make bench-ledger")
	}
	onLedgers(t, func(t *testing.T, url func() string) {
		small, big := fillLedger(t, url(), smallLedger), fillLedger(t, url(), *bigLedger)
		for _, q := range questions {
			half, p99 := measure(t, q.ask, 300, small, big)
			verdict(t, fmt.Sprintf("%s: p50 %v and %v, p99 %v and %v: ratio", q.name, half[0].Round(time.Microsecond), half[1].Round(time.Microsecond), p99[0].Round(time.Microsecond), p99[1].Round(time.Microsecond)),
				float64(p99[1])/float64(p99[0]), bigLedgerRatio)
		}
		_, quiet := measure(t, placeOne, 300, big)
		beside := besideReports(t, big, func() time.Duration { _, p99 := measure(t, placeOne, 300, big); return p99[0] })
		verdict(t, fmt.Sprintf("an order beside 8 reports: p99 %v and %v: ratio", quiet[0], beside), float64(beside)/float64(quiet[0]), besideRatio)
		if rate := orderRate(t, big, 5*time.Second); rate < ordersASec {
			t.Errorf("%.0f orders a second of 16 callers, less than %d", rate, ordersASec)
		} else {
			t.Logf("%.0f orders a second of 16 callers", rate)
		}
	})
}

func verdict(t *testing.T, what string, ratio, most float64) {
	t.Helper()
	if t.Logf("%s %.2f", what, ratio); ratio > most {
		t.Errorf("%s %.2f, more than %v", what, ratio, most)
	}
}

// besideReports measures during 8 concurrent reports that each read a year's orders.
func besideReports(t *testing.T, b *filledLedger, measured func() time.Duration) time.Duration {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var reports sync.WaitGroup
	var begun atomic.Int64
	for range 8 {
		reports.Go(func() {
			for ctx.Err() == nil {
				begun.Add(1)
				_ = usage(nil, ledger.ByLabel)(ctx, b) // most reports have to wait, or time out
			}
		})
	}
	p99 := measured()
	stop()
	reports.Wait()
	if begun.Load() < 8 {
		t.Errorf("%d reports were asked for", begun.Load())
	}
	return p99
}

// orderRate returns the number of orders per second that 16 callers in one team can write.
func orderRate(t *testing.T, b *filledLedger, d time.Duration) float64 {
	t.Helper()
	var done atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	for range 16 {
		callers.Go(func() {
			for time.Since(began) < d {
				if err := placeOne(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	callers.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
