package content_test

import (
	"database/sql"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// The clock of the process is years behind the clock of the database: it is the clock of a test in simulated time.
func TestTheDatabaseDecidesTheAgeOfACopy(t *testing.T) {
	url := proctest.Database(t)
	for name, row := range map[string]struct {
		older string
		want  ledger.ContentState
	}{
		"an hour": {"1 hour", ledger.ContentWaiting}, "a day": {"25 hours", ledger.ContentFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStudio(t, url)
				s.finish(name, picture(1000))
				s.upstream.set(func() { delete(s.upstream.files, name) })
				wantedEarlier(t, url, row.older)
				stop := s.run(s.results)
				time.Sleep(time.Minute)
				stop()
				if got := s.row(name); got.State != row.want || got.Problem == "" {
					t.Errorf("a copy that the catalog has not had for %s is %v: %s", row.older, got.State, got.Problem)
				}
			})
		})
	}
}

// wantedEarlier sets back the time since which all copies are wanted.
func wantedEarlier(t *testing.T, url, interval string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `UPDATE contents SET begin_time = begin_time - EXTRACT(EPOCH FROM $1::TEXT::INTERVAL)::BIGINT * 1000000`, interval); err != nil {
		t.Fatal(err)
	}
}
