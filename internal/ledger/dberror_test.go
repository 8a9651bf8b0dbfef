package ledger_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// wantRefusal tries to open an unusable ledger. The error must be a single line that names the setting and
// contains the given remedy. It must not contain a password.
func wantRefusal(t *testing.T, url, cure string) {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: theCatalog, ResendWindow: window})
	if err == nil {
		_ = l.Close()
		t.Fatal("opening the unusable ledger succeeded")
	}
	wantCure(t, err, cure)
}

func wantCure(t *testing.T, err error, cure string) {
	t.Helper()
	if err == nil {
		t.Fatal("got no error")
	}
	text := err.Error()
	if !strings.Contains(text, "EASEL_LEDGER_URL") || !strings.Contains(text, cure) || strings.Contains(text, "\n") {
		t.Errorf("%q is not a single line with EASEL_LEDGER_URL and %q", text, cure)
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("the error contains the password: %q", text)
	}
}

func TestInvalidLedgerURLIsRejected(t *testing.T) {
	for _, url := range []string{
		"", "sqlite:", "sqlite::memory:", "memory:", "book.db", "sqlite3:book.db", "postgress://me:hunter2@localhost/easel", "postgres:me:hunter2@localhost",
		"postgres://me:hunter2@/easel", "postgres://me:hunter2@local host/easel", "postgres://me:hunter2@localhost:port/easel",
		"postgres://me:hunter2%zz@localhost/easel", "postgres://me:hunter2@localhost/easel?sslmode=maybe", "mysql://me:hunter2@localhost/easel",
	} {
		wantRefusal(t, url, "must be memory, sqlite:FILE, or postgres://USER:PASSWORD@HOST/DATABASE")
		wantCure(t, ledger.Check(url), "must be")
	}
}

func TestSecondProcessOnOneFileIsRejected(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "book.db"), filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	open(t, "sqlite:"+file)
	for _, name := range []string{file, link} {
		wantRefusal(t, "sqlite:"+name, "another process uses the file")
	}
}

func TestErrorOfUnusableLedgerFileStatesCause(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database at all\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "sqlite:"+filepath.Join(dir, "nowhere", "book.db"), "its directory exists")
	wantRefusal(t, "sqlite:"+dir, "can't be opened")
	wantRefusal(t, "sqlite:"+text, "damaged or not a ledger")
}

func TestErrorOfFullOrReadOnlyFileStatesCause(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "book.db")
	l := open(t, url)
	for statement, cure := range map[string]string{
		"PRAGMA max_page_count = 1": "disk of the ledger is full",
		"PRAGMA query_only = ON":    "ledger is read-only",
	} {
		l.Exec(t, statement)
		r := request("k")
		r.Inputs = strings.Repeat("x", 1<<20)
		_, _, err := l.Write(t.Context(), r)
		wantCure(t, err, cure)
		l.Exec(t, "PRAGMA query_only = OFF")
	}
}

func TestErrorOfFullOrReadOnlyDatabaseStatesCause(t *testing.T) {
	url := proctest.Database(t)
	l := open(t, url)
	change(t, url, `CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`)
	change(t, url, `CREATE TRIGGER no_room BEFORE INSERT ON orders EXECUTE FUNCTION no_room()`)
	_, _, err := l.Write(t.Context(), request("k"))
	wantCure(t, err, "disk of the ledger is full")
	l.Exec(t, `ALTER DATABASE `+databaseName(t, url)+` SET default_transaction_read_only = on`)
	_ = l.Close()
	wantRefusal(t, url, "use the primary")
}

func databaseName(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func TestErrorOfUnusableDatabaseStatesCause(t *testing.T) {
	address := proctest.Database(t)
	name := databaseName(t, address)
	user := "user_of_" + name
	change(t, address, "CREATE ROLE "+user+" LOGIN PASSWORD 'hunter2'")
	as := func(login *url.Userinfo, change func(*url.URL)) string {
		return changeURL(t, changeURL(t, address, change), func(u *url.URL) { u.User = login })
	}
	for cure, url := range map[string]string{
		"rejects the user or the password": as(url.UserPassword(user, "hunter22"), func(*url.URL) {}),
		"permission denied":                as(url.UserPassword(user, "hunter2"), func(*url.URL) {}),
		"database not found":               as(url.UserPassword("postgres", "hunter2"), func(u *url.URL) { u.Path = "/nowhere" }),
		"can't be reached":                 as(url.UserPassword(user, "hunter2"), func(u *url.URL) { u.Host = "127.0.0.1:1" }),
		"check host":                       as(url.UserPassword(user, "hunter2"), func(u *url.URL) { u.Host = "nowhere.invalid" }),
		"sslmode":                          as(url.UserPassword(user, "hunter2"), func(u *url.URL) { u.RawQuery = "sslmode=require" }),
	} {
		wantRefusal(t, url, cure)
		_, err := ledger.Verify(t.Context(), url, nil)
		wantCure(t, err, map[bool]string{true: cure, false: "ledger not found"}[cure != "permission denied"]) // Verify creates no tables, so it needs no permission to do so; instead, it reports that there is no ledger
	}
	_, err := ledger.Verify(t.Context(), as(url.UserPassword(user, "hunter22"), func(*url.URL) {}), nil)
	wantCure(t, err, "password authentication failed")
}

func TestAnIncompatibleSchemaIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		closeLedger(t, open(t, url))
		change(t, url, "UPDATE facts SET value = '99' WHERE name = 'schema'")
		closeLedger(t, open(t, url)) // succeeds, because the schema of the later version is still compatible
		change(t, url, "UPDATE facts SET value = '99' WHERE name = 'needed_schema'")
		wantRefusal(t, url, "changed by a later version of Easel")
	})
}
