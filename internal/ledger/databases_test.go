package ledger_test

import (
	"net/url"
	"os"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// onEach runs a test with an empty ledger in each kind of database.
var onEach = proctest.OnEach

// change executes a statement directly in the ledger's database, for example to change times.
var change = proctest.Exec

// changed parses the database URL in address, modifies it with the function change, and returns the result.
// For example, change can replace the user.
func changed(t *testing.T, address string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}
