package ledger_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// onEach runs a test against both databases. Url gives an empty one.
func onEach(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for name, url := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "the book?.db") },
		"PostgreSQL": func(t *testing.T) string { return proctest.Database(t) },
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, url(t)) })
	}
}

// change changes the book behind the ledger's back: a test moves its clock so.
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
