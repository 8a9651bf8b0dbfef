package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestOpenOrdersOfOwnerAreLimited(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		first := write(t, l, request("first"))
		openOrders(t, l, ledger.MostOpen)
		if _, step, err := l.Call(t.Context(), request("one more")); !errors.Is(err, ledger.ErrTooManyOpen) {
			t.Errorf("the step for an order above the limit is %+v, %v", step, err)
		}
		wantAction(t, l, request("first"), lifecycle.Wait, "the step for an open order")
		other := request("one more")
		other.Namespace, other.Owner, other.Caller = "print", "print", "printer"
		wantAction(t, l, other, lifecycle.Write, "the step for another owner's order")
		conclude(t, l, first, lifecycle.Named, "g1")
		wantAction(t, l, request("one more"), lifecycle.Write, "after one order has an outcome, the step for a new order")
	})
}

func TestRejectedOrdersOfOwnerAreLimitedPerHour(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("first")), lifecycle.TurnedAway, "")
		openOrders(t, l, ledger.MostRefused-1)
		wantAction(t, l, request("the last one"), lifecycle.Write, "the step for the last allowed order")
		conclude(t, l, write(t, l, request("the last one")), lifecycle.TurnedAway, "")
		if _, step, err := l.Call(t.Context(), request("one more")); !errors.Is(err, ledger.ErrTooManyRefused) {
			t.Errorf("the step for an order above the limit is %+v, %v", step, err)
		}
		other := request("one more")
		other.Namespace, other.Owner, other.Caller = "print", "print", "printer"
		wantAction(t, l, other, lifecycle.Write, "the step for another owner's order")
		l.Exec(t, `UPDATE orders SET order_time = order_time - `+strconv.FormatInt(ledger.RefusedTime.Microseconds(), 10))
		wantAction(t, l, request("one more"), lifecycle.Write, "an hour later, the step for a new order")
	})
}

func TestOrdersPastResendWindowDoNotCountAsOpen(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		write(t, l, request("first"))
		openOrders(t, l, ledger.MostOpen)
		l.Exec(t, `UPDATE orders SET leased_until = 0, order_time = order_time - `+strconv.FormatInt(window.Microseconds(), 10)+`, retry_time = retry_time - `+strconv.FormatInt(window.Microseconds(), 10))
		wantAction(t, l, request("after the window"), lifecycle.Write, "the step for an order after the window")
	})
}

func TestTheBytesOfAnOrderRequestAreDeletedAfterResendWindow(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		free := request("k")
		free.PriceCents = 0
		write(t, l, free)
		if moved, err := l.Expire(t.Context(), 8); err != nil || moved != 0 {
			t.Fatalf("within the window %d orders expire, %v", moved, err)
		}
		l.Exec(t, `UPDATE orders SET leased_until = 0, order_time = order_time - `+strconv.FormatInt(window.Microseconds(), 10))
		for _, want := range []int{1, 0} {
			if moved, err := l.Expire(t.Context(), 8); err != nil || moved != want {
				t.Errorf("%d orders expire, %v, want %d", moved, err, want)
			}
		}
		if kept := l.Ask(t, `SELECT COALESCE(inputs, 'none') FROM orders`); kept != "none" {
			t.Errorf("the inputs of the expired order are %q", kept)
		}
		wantAnswer(t, l, free, lifecycle.Unresolved, "the step for a repeat")
	})
}

// openOrders copies the only order until the ledger has count orders without an outcome.
func openOrders(t *testing.T, l *ledger.Ledger, count int) {
	t.Helper()
	l.Exec(t, `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < `+strconv.Itoa(count)+`)
		INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, state, leases, leased_until, order_time, retry_time, reserved_cents)
		SELECT id || i, namespace, owner, caller, idempotency_key || i, upstream_key, api_key, model_id, digest, state, leases, leased_until, order_time, retry_time, 0 FROM orders, n`)
}

// SQLite's -wal file grows while a connection reads the ledger. The ledger must truncate it after the read.
func TestSQLiteWALIsTruncatedAfterLongRead(t *testing.T) {
	const limit = 64 << 20
	file := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, "sqlite:"+file)
	end := l.Report(t)
	isLarge := func() bool {
		log, err := os.Stat(file + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return log.Size() > limit
	}
	for n := 0; !isLarge(); n++ {
		l.Exec(t, fmt.Sprintf("INSERT INTO facts (name, value) VALUES ('large %d', HEX(ZEROBLOB(524288)))", n))
	}
	end()
	for until := time.Now().Add(30 * time.Second); isLarge() && time.Now().Before(until); {
		l.Exec(t, "UPDATE facts SET value = value || '.' WHERE name = 'large 0'")
	}
	if isLarge() {
		t.Error("the -wal file was not truncated")
	}
}
