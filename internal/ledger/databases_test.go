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

// changeURL parses the database URL in address, modifies it with fn, and returns the result. For example, fn can replace the
// user.
func changeURL(t *testing.T, address string, fn func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	fn(u)
	return u.String()
}
