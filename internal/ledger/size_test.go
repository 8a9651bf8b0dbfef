package ledger_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// This test measures orders with an idempotency key of 40 characters and a record of 600 bytes. docs/operators.md states
// the sizes that the test logs with -v.
func TestTheBytesOfAnOrderInLedgerStayBelowLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow with -short: .ci/nightly runs it")
	}
	for labels, most := range []int64{3000, 3400} {
		t.Run(fmt.Sprint(labels, " labels"), func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				const many = 500
				l := open(t, url)
				for n := range many {
					r := request(fmt.Sprintf("poster-%033d", n))
					r.UpstreamKey, r.Digest, r.Labels = fmt.Sprintf("%064d", n), strings.Repeat("d", 64), map[string]string{}
					for range labels {
						r.Labels["campaign"] = "spring-2026"
					}
					id := fmt.Sprintf("gen_%026d", n)
					conclude(t, l, write(t, l, r), lifecycle.Named, id)
					if _, err := l.Observe(t.Context(), id, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(11)}, Record: strings.Repeat("r", 600)}); err != nil {
						t.Fatal(err)
					}
				}
				closeLedger(t, l)
				bytes := size(t, url) / many
				t.Logf("%d bytes", bytes)
				if bytes > most {
					t.Errorf("an order takes %d bytes, more than %d", bytes, most)
				}
			})
		})
	}
}

// size returns the size of a closed ledger in bytes.
func size(t *testing.T, url string) (bytes int64) {
	t.Helper()
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	change(t, url, "VACUUM FULL")
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "SELECT pg_total_relation_size('orders') + pg_total_relation_size('labels')").Scan(&bytes); err != nil {
		t.Fatal(err)
	}
	return bytes
}
