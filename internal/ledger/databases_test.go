package ledger_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// onEach runs a test with an empty ledger in each database.
func onEach(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	proctest.OnEach(t, test)
}

// change executes a statement in the ledger's database. Tests use it to move the times of the ledger.
func change(t *testing.T, url, statement string) {
	t.Helper()
	driver, source := "pgx", url
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, source = "sqlite", "file:"+strings.ReplaceAll(file, "?", "%3f")
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
