package content_test

import (
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// The database's clock must determine the age of a copy. The clock of the process is eight days ahead.
func TestAgeOfCopyIsBasedOnDatabaseClock(t *testing.T) {
	url, ahead := proctest.Database(t), time.Now().Add(8*24*time.Hour)
	for name, row := range map[string]struct {
		older string
		want  ledger.ContentState
	}{
		"now": {"0 hours", ledger.ContentWaiting}, "an hour ago": {"1 hour", ledger.ContentWaiting}, "eight days ago": {"8 days", ledger.ContentFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(ahead)) // moves the simulated clock, which starts in the year 2000, to the time ahead
				s := newStudio(t, url)
				s.finishOrder(name, picture(1000))
				s.forgetFiles(name)
				proctest.Exec(t, url, `UPDATE jobs SET begin_time = begin_time - EXTRACT(EPOCH FROM INTERVAL '`+row.older+`')::BIGINT * 1000000`)
				stop := s.runJobs(s.results)
				time.Sleep(time.Minute)
				stop()
				if got := s.row(name); got.State != row.want || got.Problem == "" {
					t.Errorf("a copy that was requested %s is %v: %s", name, got.State, got.Problem)
				}
			})
		})
	}
}
