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

// changed applies a change to a database's URL, for example of the user, and returns the new URL.
func changed(t *testing.T, address string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}
