package proctest

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
)

// Exec executes a statement in a ledger's database, over a separate connection. url is the ledger's URL. Tests use Exec
// to change times, and to simulate other processes and failures.
func Exec(t testing.TB, url, statement string) {
	t.Helper()
	driver, source := "pgx", url
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, source = "sqlite", "file:"+strings.ReplaceAll(file, "?", "%3f")+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, source)
	if err == nil {
		_, err = db.ExecContext(t.Context(), statement)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
