package ledger_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

func BenchmarkIDsThatNobodyHas(b *testing.B) {
	l, err := ledger.Open(b.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(b.TempDir(), "book.db"), Catalog: "c"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ids, owner := make([]string, 1000), "studio"
	for n := range ids {
		ids[n] = fmt.Sprint("gen_made_up_", n)
	}
	for b.Loop() {
		if _, err := l.Own(b.Context(), &owner, ids...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOrders measures 16 callers in one team with a budget, in databases that sync to disk. All orders get an
// outcome.
func BenchmarkOrders(b *testing.B) {
	for name, url := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(b.TempDir(), "book.db") },
		"PostgreSQL": func() string { return proctest.StartPostgresWith(b).Database(b) },
	} {
		b.Run(name, func(b *testing.B) {
			led := &filledLedger{Ledger: openWithTeams(b, url())}
			b.SetParallelism(16 / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(next *testing.PB) {
				for next.Next() {
					if err := placeOne(b.Context(), led); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
		})
	}
}
