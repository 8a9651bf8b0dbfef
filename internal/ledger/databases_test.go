package ledger_test

import (
	"os"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// onEach runs a test with an empty ledger in each kind of database.
var onEach = proctest.OnEach

// change executes a statement directly in the ledger's database, for example to change times.
var change = proctest.Exec
