package ledger_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// lockedFor is the maximum time until the database releases the locks of a host that has vanished.
const lockedFor = 10 * time.Second

func TestLocksOfHungTransactionExpire(t *testing.T) {
	for name, statement := range map[string]string{
		"rows of budgets": `SELECT * FROM budgets FOR UPDATE`,
		"rows of orders":  `SELECT * FROM orders FOR UPDATE`,
		"table of orders": `LOCK TABLE orders IN ACCESS EXCLUSIVE MODE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := proctest.Database(t)
			l, vanishes := open(t, at), open(t, at)
			open := write(t, l, request("k"))
			vanishes.Hang(t, statement)
			begin := time.Now()
			for err := error(nil); ; {
				if _, err = l.Conclude(t.Context(), open.ID, open.Leases, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "g1", CostCents: cents(9)}); err == nil {
					break
				}
				if time.Since(begin) > lockedFor {
					t.Fatalf("after %v the locked order has no outcome: %v", time.Since(begin), err)
				}
			}
			write(t, l, request("another"))
			t.Logf("the lock lasted %v", time.Since(begin))
		})
	}
}

// Resume skips an order that another transaction has locked, so that the lock does not delay the resending of other orders.
func TestLockedOrderDelaysNoOtherOrders(t *testing.T) {
	at := proctest.Database(t)
	l, other := open(t, at), open(t, at)
	for _, key := range []string{"locked", "free"} {
		write(t, l, request(key))
		l.Exec(t, "UPDATE orders SET leased_until = 0, retry_time = retry_time - 60000000")
	}
	other.Hang(t, `SELECT * FROM orders WHERE idempotency_key = 'locked' FOR UPDATE`)
	begin := time.Now()
	if o, found, err := l.Resume(t.Context(), theAPIKey, ""); !found || err != nil || o.IdempotencyKey != "free" {
		t.Errorf("the resumed order is %q, %v, %v", o.IdempotencyKey, found, err)
	}
	wantNoResume(t, l, "a second order is resumed")
	l.Exec(t, "UPDATE orders SET leased_until = 0, order_time = order_time - 43200000000 WHERE idempotency_key = 'free'")
	if moved, err := l.Expire(t.Context(), 10); moved != 1 || err != nil {
		t.Errorf("the reservations of %d orders expire, want 1, %v", moved, err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Resume and Expire took %v, want at most 2s", took)
	}
}

// The recovery alternates between owners, regardless of how many orders each owner has.
func TestRecoveryAlternatesBetweenOwners(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for n := range 10 {
			write(t, l, request(fmt.Sprint("studio", n)))
		}
		for _, owner := range []string{"print", "web"} {
			r := request(owner)
			r.Namespace, r.Owner, r.Caller = owner, owner, owner
			write(t, l, r)
		}
		l.Exec(t, "UPDATE orders SET leased_until = 0, retry_time = retry_time - 60000000")
		owners := []string{""}
		for range 5 {
			o, found, err := l.Resume(t.Context(), theAPIKey, owners[len(owners)-1])
			if !found || err != nil {
				t.Fatalf("no order is resumed: %v", err)
			}
			owners = append(owners, o.Owner)
		}
		if got := strings.Join(owners[1:], " "); got != "print studio web studio studio" {
			t.Errorf("the owners are resumed in the order %q", got)
		}
	})
}

func TestTransactionAbortedByConflictIsRepeated(t *testing.T) {
	l := open(t, proctest.Database(t))
	for _, code := range []string{"40001", "40P01"} {
		given := &pgconn.PgError{Code: code}
		if begun, err := l.Repeat(t, 2, given); begun != 3 || err != nil {
			t.Errorf("%s: the transaction started %d times, want 3, %v", code, begun, err)
		}
		if begun, err := l.Repeat(t, 1000, given); begun > 10 || err == nil {
			t.Errorf("%s: the transaction started %d times, want at most 10 and an error: %v", code, begun, err)
		}
	}
	if begun, err := l.Repeat(t, 1, &pgconn.PgError{Code: "23505"}); begun != 1 || err == nil {
		t.Errorf("after another error, the transaction started %d times, want 1 and an error: %v", begun, err)
	}
}

func TestDatabaseSessionsSetIsolationAndTimeouts(t *testing.T) {
	at := proctest.Database(t)
	change(t, at, fmt.Sprintf(`ALTER DATABASE %q SET default_transaction_isolation = 'serializable'`, databaseName(t, at)))
	l := open(t, at)
	for setting, want := range map[string]string{
		"transaction_isolation": "read committed", "lock_timeout": "4s", "statement_timeout": "4500ms", "idle_in_transaction_session_timeout": "3s",
	} {
		if got := l.Ask(t, "SHOW "+setting); got != want {
			t.Errorf("%s is %s", setting, got)
		}
	}
	at = changeURL(t, at, func(u *url.URL) { u.RawQuery += "&statement_timeout=1234" })
	if got := open(t, at).Ask(t, "SHOW statement_timeout"); got != "1234ms" {
		t.Errorf("the URL sets 1234 ms, but the setting is %s", got)
	}
}

// A report must not use the connection that writes orders. SQLite has only one such connection.
func TestReportsDoNotDelayOrders(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		write(t, l, request("before"))
		defer l.Report(t)()
		defer l.Report(t)()
		begin := time.Now()
		o := write(t, l, request("beside"))
		conclude(t, l, o, lifecycle.Named, "g1")
		if own, err := l.Own(t.Context(), nil, "g1"); len(own) != 1 || err != nil {
			t.Errorf("the order can't be read while reports run: %v", err)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("an order took %v while reports ran", took)
		}
	})
}

func TestLedgerFilesHaveMode0600(t *testing.T) {
	file := filepath.Join(t.TempDir(), "book.db")
	if err := os.WriteFile(file, nil, 0o644); err != nil { //nolint:gosec // Open must remove the permissions of other users
		t.Fatal(err)
	}
	l := open(t, "sqlite:"+file)
	write(t, l, request("k"))
	files, err := filepath.Glob(file + "*")
	if err != nil || len(files) < 3 {
		t.Fatalf("the files are %q, %v", files, err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestObservationOfLockedOrderFailsFast(t *testing.T) {
	t.Parallel()
	l := open(t, proctest.Database(t))
	conclude(t, l, write(t, l, request("k")), lifecycle.Named, "g1")
	l.Hang(t, "UPDATE orders SET leases = leases WHERE generation_id = 'g1'")
	began := time.Now()
	_, err := l.Observe(t.Context(), "g1", ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Running}, AtOnce: true})
	if away, ok := errors.AsType[*ledger.Unavailable](err); !ok || !away.Locked || time.Since(began) > time.Second {
		t.Errorf("after %v, Observe returns %v", time.Since(began), err)
	}
}

func TestObservationsAreRecordedAtomically(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		seen := map[string]ledger.Observation{"g-nobody's": {Observation: lifecycle.Observation{Status: lifecycle.Succeeded}}}
		for n := range 5 {
			r := request(fmt.Sprint("k", n))
			r.Namespace, r.Owner = fmt.Sprint("team", n%2), fmt.Sprint("team", n%2)
			id := fmt.Sprint("g", n)
			conclude(t, l, write(t, l, r), lifecycle.Named, id)
			seen[id] = ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(int64(10 + n))}, AtOnce: true}
		}
		if strings.HasPrefix(url, "postgres") {
			open(t, url).Hang(t, `SELECT * FROM orders WHERE generation_id = 'g3' FOR UPDATE`)
			_, err := l.ObserveAll(t.Context(), seen)
			if away, ok := errors.AsType[*ledger.Unavailable](err); !ok || !away.Locked {
				t.Errorf("with a locked order, ObserveAll returns %v", err)
			}
			if o := orderOfGeneration(t, l, "g1"); o.Status != lifecycle.Unseen {
				t.Errorf("an observation is recorded although another order is locked: %+v", o.Observed)
			}
			delete(seen, "g3")
		}
		effects, err := l.ObserveAll(t.Context(), seen)
		if err != nil || len(effects) != len(seen)-1 || effects["g4"].ExceededCents != 11 || effects["g1"].ExceededCents != 0 {
			t.Errorf("ObserveAll returned %+v, %v", effects, err)
		}
		for _, id := range []string{"g0", "g1", "g2", "g4"} {
			if o := orderOfGeneration(t, l, id); o.Status != lifecycle.Succeeded {
				t.Errorf("%s is %+v", id, o.Observed)
			}
		}
		wantNoDifference(t, url)
	})
}
