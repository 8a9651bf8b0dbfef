package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// writeLedger opens the ledger at url, writes the given number of orders in various states, and closes the ledger.
func writeLedger(t *testing.T, url string, orders int) {
	t.Helper()
	l := openWith(t, ledger.Config{URL: url, Events: &ledger.EventConfig{
		Teams:      func() map[string]ledger.Team { return map[string]ledger.Team{"team1": {Subscribed: true}} },
		Generation: func(ledger.Order, *string) string { return `{"text":"a ‚'word'"}` }, Budget: func(ledger.Budget) string { return "{}" },
	}})
	random := rand.New(rand.NewPCG(1, 2))
	for n := range orders {
		writeRandomOrder(t, l, n, random)
	}
	closeLedger(t, l)
}

func copyLedger(ctx context.Context, from, to string, done func(string, int64)) (copied ledger.Copied, differences []string, err error) {
	copied, err = ledger.Copy(ctx, from, to, ledger.By{Actor: "ops", Origin: "here"}, done, func(d ledger.Difference) { differences = append(differences, d.String()) })
	return copied, differences, err
}

func ignore(string, int64) {}

// mustCopy copies a ledger. The verification of the copy must find no difference.
func mustCopy(t *testing.T, from, to string) ledger.Copied {
	t.Helper()
	copied, differences, err := copyLedger(t.Context(), from, to, ignore)
	if err != nil || len(differences) > 0 {
		t.Fatal(differences, err)
	}
	return copied
}

func TestLedgerIsCopiedToPostgreSQLAndToSQLite(t *testing.T) {
	onEach(t, func(t *testing.T, from string) {
		writeLedger(t, from, 60)
		there, back := proctest.Database(t), "sqlite:"+filepath.Join(t.TempDir(), "back.db")
		for _, pair := range [][2]string{{from, there}, {there, back}} {
			if copied := mustCopy(t, pair[0], pair[1]); copied.Orders != 60 || copied.Budgets != 6 || copied.Rows < 200 {
				t.Fatalf("%+v", copied)
			}
		}
		l := open(t, back)
		conclude(t, l, write(t, l, request("a new one")), lifecycle.Named, "g-new") // checks that the triggers that write the journal still work in the copy
		for statement, says := range map[string]string{"UPDATE movements SET cents = 1": "only ever added", "DELETE FROM movements": "only ever added"} {
			if err := l.Refuse(t, statement); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", statement, err)
			}
		}
		if looked, differences := verify(t, back); len(differences) > 0 || looked.Orders != 61 {
			t.Errorf("%+v: %q", looked, differences)
		}
		copied := "sqlite:" + filepath.Join(t.TempDir(), "copied.db")
		closeLedger(t, l)
		mustCopy(t, back, copied)
		if _, err := ledger.Open(t.Context(), ledger.Config{URL: copied, Catalog: "https://another.example"}); err == nil || !strings.Contains(err.Error(), "belongs to the catalog") {
			t.Errorf("opening the copy for another catalog returns %v", err)
		}
	})
}

func TestCopiedLedgerDeliversPendingEventsInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, from string) {
		l := openWithEndedGenerations(t, from)
		closeLedger(t, l)
		for _, to := range []string{proctest.Database(t), "sqlite:" + filepath.Join(t.TempDir(), "copy.db")} {
			mustCopy(t, from, to)
			l := openTelling(t, to, eventConfig(ledger.Limits{}))
			if due := dueEvents(t, l, "studio"); !slices.Equal(due, []string{"g1 failed", "g2 succeeded"}) {
				t.Errorf("the due events are %q", due)
			}
			if _, err := ledger.Unseal(t.Context(), from, ada); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// An interrupted copy leaves nothing in the new ledger, so the copy can be started again with the same arguments.
func TestInterruptedCopyLeavesNewLedgerEmpty(t *testing.T) {
	onEach(t, func(t *testing.T, to string) {
		from := "sqlite:" + filepath.Join(t.TempDir(), "from.db")
		writeLedger(t, from, 40)
		for _, at := range []string{"movements", "audit"} { // interrupts Copy within the table movements, or after the last table, which is audit
			interrupted, cancel := context.WithCancel(t.Context())
			if _, _, err := copyLedger(interrupted, from, to, func(table string, rows int64) {
				if table == at && (rows > 0 || at == "audit") {
					cancel()
				}
			}); err == nil {
				t.Fatal("the copy was not interrupted")
			}
		}
		if copied := mustCopy(t, from, to); copied.Orders != 40 {
			t.Errorf("%+v", copied)
		}
		other := "sqlite:" + filepath.Join(t.TempDir(), "other.db")
		writeLedger(t, other, 1)
		if _, _, err := copyLedger(t.Context(), other, to, ignore); err == nil || !strings.Contains(err.Error(), "not a new ledger: the table orders already has rows") {
			t.Errorf("copying into a used ledger returns %v", err)
		}
	})
}

func TestALedgerInUseIsNotCopied(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("one")), lifecycle.Named, "g1")
		unused := "sqlite:" + filepath.Join(t.TempDir(), "unused.db")
		writeLedger(t, unused, 1)
		for argument, pair := range map[string][2]string{"FROM: ": {url, "sqlite:" + filepath.Join(t.TempDir(), "new.db")}, "TO: ": {unused, url}} {
			_, _, err := copyLedger(t.Context(), pair[0], pair[1], ignore)
			if err == nil || !strings.HasPrefix(err.Error(), argument) || !strings.Contains(err.Error(), "stop the ") {
				t.Errorf("%s%v", argument, err)
			}
		}
	})
}

// Each table must be copied or be listed here as temporary. Otherwise, a table that a migration adds would be missing
// from copies.
func TestEveryLedgerTableIsCopiedOrTemporary(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "book.db")
	l := open(t, url)
	tables := l.Ask(t, `SELECT GROUP_CONCAT(name, ' ' ORDER BY name) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'`)
	if want := strings.Join(ledger.CopiedTables("jobs", "replicas"), " "); tables != want {
		t.Errorf("the tables are %q, want the copied and temporary tables %q", tables, want)
	}
}

func TestBackupRunsWhileLedgerIsInUse(t *testing.T) {
	dir := t.TempDir()
	url, file := "sqlite:"+filepath.Join(dir, "book.db"), filepath.Join(dir, "backup.db")
	l := open(t, url)
	conclude(t, l, write(t, l, request("before")), lifecycle.Named, "g1")
	differs := func(d ledger.Difference) { t.Error(d) }
	looked, err := ledger.Backup(t.Context(), url, file, differs)
	if err != nil || looked.Orders != 1 {
		t.Fatal(looked, err)
	}
	conclude(t, l, write(t, l, request("after")), lifecycle.Named, "g2")
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".easel*")); err != nil || len(left) > 0 {
		t.Errorf("the temporary files %q remain", left)
	}
	restored := open(t, "sqlite:"+file)
	if o := orderOfGeneration(t, restored, "g1"); o.IdempotencyKey != "before" {
		t.Errorf("the order in the backup is %+v", o)
	}
	for _, refused := range []struct{ url, file, says string }{
		{url, file, "exists; use a new file"},
		{"postgres://db.example/easel", "new.db", "pg_dump"},
		{ledger.InMemory, "new.db", "only visible to its own process"},
		{url, filepath.Join(dir, "no", "such.db"), "create backup directory"},
		{url + ".none", filepath.Join(dir, "new.db"), "can't be opened"},
	} {
		if _, err := ledger.Backup(t.Context(), refused.url, refused.file, differs); err == nil || !strings.Contains(err.Error(), refused.says) {
			t.Errorf("a backup of %s into %s returned %v", refused.url, refused.file, err)
		}
	}
}

func TestPrivilegedDatabaseUserMigratesLedger(t *testing.T) {
	owner := proctest.Database(t)
	name := fmt.Sprintf("serving_%d", rand.Uint32())
	change(t, owner, "CREATE ROLE "+name+" LOGIN PASSWORD 'p'")
	serving := changeURL(t, owner, func(u *url.URL) { u.User = url.UserPassword(name, "p") })
	if _, err := ledger.Open(t.Context(), ledger.Config{URL: serving, Catalog: theCatalog}); err == nil || !strings.Contains(err.Error(), "easel ledger migrate") {
		t.Errorf("opening the ledger without permissions returns %v", err)
	}
	version, applied, err := ledger.Migrate(t.Context(), owner, ledger.By{Actor: "dba"})
	if err != nil || int(version) != len(applied) || applied[0] != "1_initial" {
		t.Fatalf("the migration returns %d, %q, %v", version, applied, err)
	}
	if version, applied, err := ledger.Migrate(t.Context(), owner, ledger.By{Actor: "dba"}); err != nil || version != 1 || len(applied) > 0 {
		t.Errorf("the second migration returns %d, %q, %v", version, applied, err)
	}
	change(t, owner, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+name)
	l := open(t, serving)
	conclude(t, l, write(t, l, request("one")), lifecycle.Named, "g1")
	if _, err := l.Attend(t.Context(), "replica", true); err != nil {
		t.Error(err)
	}
	wantNoDifference(t, serving)
	if _, _, err := ledger.Migrate(t.Context(), ledger.InMemory, ledger.By{}); err == nil || !strings.Contains(err.Error(), "only visible to its own process") {
		t.Error(err)
	}
}
