package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// attend calls Attend for a replica, and checks the returned number of polling replicas.
func attend(t *testing.T, l *ledger.Ledger, replica string, polls bool, want int) {
	t.Helper()
	if got, err := l.Attend(t.Context(), replica, polls); got != want || err != nil {
		t.Errorf("%d replicas poll, %v; want %d", got, err, want)
	}
}

func TestOnlyActivePollingReplicasAreCounted(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		attend(t, l, "a", false, 0)
		attend(t, l, "a", true, 1)
		attend(t, l, "b", true, 2)
		attend(t, l, "a", true, 2)
		attend(t, l, "b", false, 1)
		attend(t, l, "b", true, 2)
		l.Exec(t, fmt.Sprintf("UPDATE replicas SET seen_time = seen_time - %d WHERE id = 'a'", (31*time.Second).Microseconds()))
		attend(t, l, "b", true, 1)
	})
}

func TestReplicaLastSeenInFutureIsNotCounted(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		attend(t, l, "stopped", true, 1)
		turnClockBack(t, l, 24*time.Hour)
		attend(t, l, "live", true, 1)
	})
}
