package ledger_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// reported is an order and its expected contribution to a report.
type reported struct {
	at                   time.Time
	owner, caller, model string
	counts               ledger.Usage
}

// placeAtRandom writes the given number of random orders directly into the database, with times spread over about three
// months. It returns each order with the numbers that it adds to a report. Each kind of amount has its own range, so that
// the test detects swapped columns in a report.
func placeAtRandom(t *testing.T, url string, count int, random *rand.Rand) (all []reported) {
	t.Helper()
	var rows []string
	for n := range count {
		o := reported{
			at:    time.Date(2026, 1, 28, 0, 0, 0, 0, time.UTC).Add(time.Duration(random.Int64N(int64(100 * 24 * time.Hour)))).Truncate(time.Microsecond),
			owner: fmt.Sprint("owner", random.IntN(3)), caller: fmt.Sprint("Caller-", random.IntN(2)), model: []string{"a/b", "A b", "é"}[random.IntN(3)],
		}
		o.counts.ReservedCents, o.counts.UnconfirmedCents = random.Int64N(20), random.Int64N(30)
		id, state, generation, cost, status := fmt.Sprint("order", n), 1, "NULL", "NULL", 0
		if random.IntN(8) == 0 { // this order has no outcome
			o.counts.Unknown = 1
		} else {
			o.counts.Orders, o.counts.CostCents = 1, random.Int64N(50)
			o.counts.RefundedCents = random.Int64N(o.counts.CostCents + 1)
			state, generation, cost, status = 2, "'"+id+"'", fmt.Sprint(o.counts.CostCents), 3+random.IntN(3)
			if status != int(lifecycle.Succeeded) {
				o.counts.Failed = 1
			}
		}
		rows = append(rows, fmt.Sprintf("('%s', '%s', '%s', '%s', '%s', 'u', 'a', '%s', 'd', 1, 0, 0, %d, %d, %s, %d, %d, %s, %d, %d)", id, o.owner, o.owner, o.caller, id, o.model, o.at.UnixMicro(),
			state, generation, o.counts.ReservedCents, o.counts.UnconfirmedCents, cost, o.counts.RefundedCents, status))
		all = append(all, o)
	}
	change(t, url, `INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, leases, leased_until, retry_time, order_time,
		state, generation_id, reserved_cents, unconfirmed_cents, cost_cents, refunded_cents, status) VALUES `+strings.Join(rows, ", "))
	return all
}

// usageOf returns the report that is expected for the given orders and the query q.
func usageOf(all []reported, q ledger.UsageQuery) []ledger.Usage {
	found := map[string]ledger.Usage{}
	for _, o := range all {
		if o.at.Before(q.Start) || !o.at.Before(q.End) || q.Owner != nil && *q.Owner != o.owner {
			continue
		}
		values := map[ledger.Dimension]string{ledger.ByDay: o.at.Format(time.DateOnly), ledger.ByOwner: o.owner, ledger.ByCaller: o.caller, ledger.ByModel: o.model}
		by := make([]string, len(q.By))
		for n, d := range q.By {
			by[n] = values[d]
		}
		u := found[strings.Join(by, "\x00")]
		u.Dimensions = by
		u.Orders, u.Failed, u.Unknown = u.Orders+o.counts.Orders, u.Failed+o.counts.Failed, u.Unknown+o.counts.Unknown
		u.CostCents, u.RefundedCents = u.CostCents+o.counts.CostCents, u.RefundedCents+o.counts.RefundedCents
		u.ReservedCents, u.UnconfirmedCents = u.ReservedCents+o.counts.ReservedCents, u.UnconfirmedCents+o.counts.UnconfirmedCents
		found[strings.Join(by, "\x00")] = u
	}
	rows := slices.Collect(maps.Values(found))
	slices.SortFunc(rows, func(a, b ledger.Usage) int {
		for n := range a.Dimensions {
			if c := cmp.Compare(a.Dimensions[n], b.Dimensions[n]); c != 0 {
				return c
			}
		}
		return 0
	})
	return rows
}

// A report reads daily rollups. The test computes the expected sums from the orders.
func TestUsageReportEqualsSumOfOrders(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test needs no secure random numbers
		l := open(t, url)
		all := placeAtRandom(t, url, 600, random)
		begin := time.Date(2026, 1, 20, 0, 0, 0, 0, time.UTC)
		for range 60 {
			day := []time.Duration{1, 24 * time.Hour}[random.IntN(2)] // the period starts and ends either at arbitrary times or at midnight
			q := ledger.UsageQuery{Start: begin.Add(time.Duration(random.Int64N(int64(60*24*time.Hour))) / day * day), Most: 1000}
			q.End = q.Start.Add(time.Duration(random.Int64N(int64(90*24*time.Hour))) / day * day)
			if random.IntN(4) == 0 {
				q.Start, q.End = time.Time{}, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
			}
			if random.IntN(2) == 0 {
				q.Owner = new("owner1")
			}
			by := []ledger.Dimension{ledger.ByDay, ledger.ByOwner, ledger.ByCaller, ledger.ByModel}
			random.Shuffle(len(by), func(i, j int) { by[i], by[j] = by[j], by[i] })
			q.By = by[:random.IntN(len(by)+1)]
			got, err := l.Usage(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(usageOf(all, q), got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%+v (-want +got):\n%s", q, diff)
			}
		}
	})
}
