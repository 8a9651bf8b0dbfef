package ledger_test

import (
	"os"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// onEach runs a test with an empty ledger in each database.
var onEach = proctest.OnEach

// change executes a statement in the ledger's database. Tests use it to move the times of the ledger.
var change = proctest.Exec
