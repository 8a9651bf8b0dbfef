package ledger_test

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// backUpAndRestore backs up the ledger at url without closing it, restores the backup, and returns the URL of the
// restored ledger.
func backUpAndRestore(t *testing.T, url string) (restored string) {
	t.Helper()
	if !strings.HasPrefix(url, "sqlite:") {
		return dumpAndRestore(t, url, proctest.Database(t))
	}
	file := filepath.Join(t.TempDir(), "backup.db")
	if _, err := ledger.Backup(t.Context(), url, file, func(d ledger.Difference) { t.Error(d) }); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + file
}

// dumpAndRestore copies a PostgreSQL database with pg_dump and pg_restore. It passes flags to pg_restore, and returns
// targetURL.
func dumpAndRestore(t *testing.T, sourceURL, targetURL string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ledger.dump")
	for _, command := range [][]string{{"pg_dump", "--format=custom", "--file=" + file, sourceURL}, append([]string{"pg_restore", "--no-owner", "--dbname=" + targetURL, file}, flags...)} {
		if output, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, output)
		}
	}
	return targetURL
}

func TestOrdersInFlightAreNotResentAfterRestore(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		first := write(t, l, request("first"))
		conclude(t, l, write(t, l, request("placed")), lifecycle.Named, "g1")
		restored := backUpAndRestore(t, url)
		conclude(t, l, first, lifecycle.TurnedAway, "")

		r := open(t, restored)
		if !r.IsCopy() || l.IsCopy() {
			t.Errorf("the restored ledger counts as a copy: %v; the original ledger: %v", r.IsCopy(), l.IsCopy())
		}
		wantHeld(t, r, restored, first.ID)
		if o, step := call(t, r, request("first")); step.Action != lifecycle.Submit || o.Held || o.Leases != 2 {
			t.Errorf("the caller's repeat returns %+v, %+v", o, step)
		}
		change(t, restored, "UPDATE orders SET leased_until = 0, retry_time = 0")
		if _, found, err := r.Resume(t.Context(), theAPIKey, ""); !found || err != nil {
			t.Errorf("the recovery does not resume the repeated order: %v", err)
		}
	})
}

// wantHeld ends all leases, and then checks that the order with the given ID is the ledger's only held order: its
// outcome has been unknown since the ledger was restored. wantHeld also checks that this order is not resent.
func wantHeld(t *testing.T, l *ledger.Ledger, url, id string) {
	t.Helper()
	change(t, url, "UPDATE orders SET leased_until = 0, retry_time = 0")
	wantNoResume(t, l, "the recovery resends an order")
	held, err := l.List(t.Context(), ledger.Filter{Held: true}, ledger.Position{}, 10)
	if err != nil || len(held) != 1 || held[0].ID != id || !held[0].Held {
		t.Fatalf("the held orders are %+v, %v", held, err)
	}
	if until, again := l.ResendUntil(held[0], theAPIKey); again {
		t.Errorf("the held order may be resent until %v", until)
	}
}

// createClosedLedger creates a ledger that contains one order without an outcome, and closes the ledger again. It returns
// the order's ID.
func createClosedLedger(t *testing.T, url string) (id string) {
	t.Helper()
	l := open(t, url)
	id = write(t, l, request("first")).ID
	closeLedger(t, l)
	return id
}

func TestLedgerRestoredCommandHoldsUnresolvedOrders(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		first := write(t, l, request("first"))
		if _, err := ledger.Restored(t.Context(), url, ada); err == nil || !strings.Contains(err.Error(), "stop the ") {
			t.Errorf("for a ledger in use, Restored returned %v", err)
		}
		closeLedger(t, l)
		if held, err := ledger.Restored(t.Context(), url, ada); held != 1 || err != nil {
			t.Fatal(held, err)
		}
		l = open(t, url)
		wantHeld(t, l, url, first.ID)
		if lines := auditOf(t, l); !l.IsCopy() || !slices.Equal(lines, []string{`ada 192.0.2.7 ledger.restored   {"held":1}`}) {
			t.Errorf("the ledger counts as a copy: %v; audit trail: %q", l.IsCopy(), lines)
		}
		resolve(t, l, first, theAPIKey, ledger.Resolution{Generation: "g1", By: ada})
		if held, err := l.List(t.Context(), ledger.Filter{Held: true}, ledger.Position{}, 10); err != nil || len(held) > 0 {
			t.Errorf("after the resolution, the held orders are %+v, %v", held, err)
		}
	})
}

func TestLedgerIsSealedAfterItIsCopied(t *testing.T) {
	onEach(t, func(t *testing.T, from string) {
		id, to := createClosedLedger(t, from), "sqlite:"+filepath.Join(t.TempDir(), "to.db")
		mustCopy(t, from, to)
		wantHeld(t, open(t, to), to, id)
		config := ledger.Config{URL: from, Catalog: theCatalog, ResendWindow: window}
		if _, err := ledger.Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), "sealed; use the copy, or run easel ledger unseal") {
			t.Errorf("opening the old ledger returns %v", err)
		}
		if held, err := ledger.Unseal(t.Context(), from, ada); held != 1 || err != nil {
			t.Fatal(held, err)
		}
		old := open(t, from)
		if !old.IsCopy() {
			t.Error("the unsealed ledger does not count as a copy, although the ledger to which it was copied may have been used")
		}
		wantHeld(t, old, from, id)
		closeLedger(t, old)
		if _, err := ledger.Unseal(t.Context(), from, ada); err == nil || !strings.Contains(err.Error(), "is not sealed") {
			t.Errorf("a second unseal returns %v", err)
		}
		mustCopy(t, from, "sqlite:"+filepath.Join(t.TempDir(), "again.db")) // an unsealed ledger can be copied again
	})
}

// A replica that was disconnected while the ledger was copied may still have the old database open. The old
// database must reject the replica's writes.
func TestSealedDatabaseRejectsWrites(t *testing.T) {
	from := proctest.Database(t)
	createClosedLedger(t, from)
	mustCopy(t, from, "sqlite:"+filepath.Join(t.TempDir(), "to.db"))
	db, err := sql.Open("pgx", from)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"UPDATE orders SET leases = leases + 1", "DELETE FROM labels; DELETE FROM orders", "INSERT INTO orders SELECT * FROM orders"} {
		if _, err := db.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "the ledger is sealed") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// An operator may restore a dump into a database that a server is still using. After that, no order may be
// resent, either by this server or by one that starts later.
func TestRestoreUnderRunningServerResendsNoOrders(t *testing.T) {
	url := proctest.Database(t)
	l := open(t, url)
	id := write(t, l, request("first")).ID
	dumpAndRestore(t, url, url, "--clean")
	change(t, url, "UPDATE orders SET leased_until = 0, retry_time = 0")
	wantNoResume(t, l, "the running server resends an order")
	restarted := open(t, url)
	wantHeld(t, restarted, url, id)
	if !restarted.IsCopy() {
		t.Error("the restored database does not count as a copy")
	}
	if other := open(t, url); other.CopyTime() != restarted.CopyTime() {
		t.Errorf("two replicas report different copy times: %v, %v", restarted.CopyTime(), other.CopyTime())
	}
}
