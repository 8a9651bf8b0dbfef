package server_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver pgx
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// lockOrders locks the ledger's table of orders, so that queries on it wait until unlock() is called. waitingCount()
// returns the number of waiting queries.
func lockOrders(t *testing.T, url string) (waitingCount func() int, unlock func()) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	waitingCount = func() (n int) {
		if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_locks WHERE relation = 'orders'::regclass AND NOT granted").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	return waitingCount, func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

func TestSlowLedgerDoesNotDelayWatchHeartbeats(t *testing.T) {
	t.Parallel()
	url := postgresLedger(t)
	s := ledgerStack(t, url, []string{"shop"}, func(o *options) { o.sandbox.Speed = 0.01 })
	own := create(t, grpcCaller{s, "shop"}, order(t, text, "k", "a lake")).GetGenerationId()
	ctx, leave := context.WithTimeout(t.Context(), 5*time.Minute)
	defer leave()
	stream, err := easelv1.NewGenerationServiceClient(s.grpc).WatchGenerations(grpcCaller{s, "shop"}.keyed(ctx), &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	next := func() *easelv1.WatchGenerationsResponse {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for next().GetCaughtUp() == nil {
	}
	waiting, unlock := lockOrders(t, url)
	foreign := orderedElsewhere(s, "x") // the server has to read the ledger to find this generation's owner
	beats, last, longest, held := 0, time.Now(), time.Duration(0), 0
	for began := time.Now(); time.Since(began) < 6*time.Second; beats++ {
		if m := next(); m.GetHeartbeat() == nil {
			t.Fatalf("the watch received %v, want a heartbeat", m)
		}
		longest, last = max(longest, time.Since(last)), time.Now()
		held = max(held, waiting())
	}
	unlock()
	if held == 0 {
		t.Error("no query waited for the locked ledger")
	}
	if longest > 4*time.Second {
		t.Errorf("%d heartbeats arrived; the longest silence was %v", beats, longest)
	}
	create(t, grpcCaller{s, "shop"}, order(t, text, "later", "a lake"))
	for {
		if g := next().GetUpdate().GetGeneration(); g.GetGenerationId() == own || g.GetGenerationId() == foreign {
			t.Errorf("the watch received an update of %v", g)
		} else if g != nil {
			return
		}
	}
}
