package jobs_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/jobs"
)

// countRows returns the number of rows in a table.
func (o *office) countRows(table string) (rows int) {
	o.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(o.url, "sqlite:")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		o.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(o.Context(), `SELECT COUNT(*) FROM `+table).Scan(&rows); err != nil {
		o.Fatal(err)
	}
	return rows
}

func TestPruneDeletesAllOldRowsInOneRun(t *testing.T) {
	inSimulatedTime(t, func(o *office) {
		const series = `WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1200) SELECT `
		o.execSQL(`INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time) ` + series + `'evt_' || n, 'studio', '', 'g' || n, 1, 0, '{}', 1, 0 FROM s`)
		o.execSQL(`INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, state, leases, leased_until, order_time, retry_time, reserved_cents) ` + series +
			`'ord_' || n, 'studio', 'studio', '', n, n, 'a', 'm', 'd', 3, 1, 0, 0, 0, 0 FROM s`)
		defer o.startJobs(jobs.Prune(o.Ledger), jobs.Retention(o.Ledger))()
		time.Sleep(time.Second)
		synctest.Wait()
		if events, orders := o.countRows("events"), o.countRows("orders"); events+orders > 0 {
			o.Errorf("%d events and %d orders are left", events, orders)
		}
		if rows := o.countRows("jobs"); rows != 2 {
			o.Errorf("%d jobs are left", rows)
		}
	})
}

func TestPruneReleasesAllExpiredReservations(t *testing.T) {
	inSimulatedTime(t, func(o *office) {
		o.execSQL(fmt.Sprintf(`INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, state, leases, leased_until, order_time, retry_time, reserved_cents)
			WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20) SELECT 'ord_' || n, 'studio', 'studio', '', n, n, 'a', 'm', 'd', 1, 1, 0, %d, 0, 9 FROM s`,
			time.Now().Add(-48*time.Hour).UnixMicro()))
		defer o.startJobs(jobs.Prune(o.Ledger))()
		time.Sleep(time.Second)
		synctest.Wait()
		if left := o.countRows("orders WHERE reserved_cents > 0"); left > 0 {
			o.Errorf("%d orders keep their reservation", left)
		}
	})
}
