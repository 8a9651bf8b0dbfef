package ledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// eventRow returns an SQL statement that inserts an event with the given owner, subject, position
// in the feed and age.
func eventRow(owner, subject string, position int, age time.Duration) string {
	return fmt.Sprintf(`INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time) VALUES ('%s-%d', '%s', 'easel.generation.failed', '%s', %d, 0, '{}', 3, %d)`,
		subject, position, owner, subject, position, time.Now().Add(-age).UnixMicro())
}

func feed(t *testing.T, l *ledger.Ledger, owner *string, after int64) (ids []string, last int64) {
	t.Helper()
	if _, err := l.NumberEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := l.Feed(t.Context(), owner, after, 1000)
	if err != nil {
		t.Fatal(err)
	}
	last = after
	for _, e := range all {
		if e.Position <= last {
			t.Errorf("%s has the position %d, which follows %d", e.ID, e.Position, last)
		}
		ids, last = append(ids, e.ID), e.Position
	}
	return ids, last
}

func TestFeedReturnsEventsOfEachSubjectInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for n := 3; n > 0; n-- { // the positions follow neither the order of the rows nor the order of the times
			change(t, url, eventRow("studio", "a", n, time.Duration(n)*time.Minute))
			change(t, url, eventRow("print", "b", n, time.Hour))
		}
		studio := "studio"
		ids, _ := feed(t, l, &studio, 0)
		if want := []string{"a-1", "a-2", "a-3"}; !slices.Equal(ids, want) {
			t.Errorf("the feed of an owner contains %q", ids)
		}
		all, last := feed(t, l, nil, 0)
		if len(all) != 6 {
			t.Errorf("the feed contains %q, want 6 events", all)
		}
		change(t, url, eventRow("studio", "a", 4, 24*time.Hour))
		if ids, _ = feed(t, l, nil, last); !slices.Equal(ids, []string{"a-4"}) {
			t.Errorf("after another event, the feed continues with %q", ids)
		}
	})
}

func TestFeedIncludesEventsCommittedLate(t *testing.T) {
	url := proctest.Database(t)
	l := open(t, url)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	early, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Rollback() }()
	if _, err := early.ExecContext(t.Context(), eventRow("studio", "early", 1, time.Minute)); err != nil {
		t.Fatal(err)
	}
	change(t, url, eventRow("studio", "late", 1, 0))
	ids, last := feed(t, l, nil, 0)
	if !slices.Equal(ids, []string{"late-1"}) {
		t.Errorf("while the earlier event is not committed, the feed contains %q", ids)
	}
	if err := early.Commit(); err != nil {
		t.Fatal(err)
	}
	if ids, _ = feed(t, l, nil, last); !slices.Equal(ids, []string{"early-1"}) {
		t.Errorf("after the commit the feed continues with %q", ids)
	}
}

func TestConcurrentProcessesAssignUniqueEventNumbers(t *testing.T) {
	url := proctest.Database(t)
	one, other := open(t, url), open(t, url)
	for n := range 1200 {
		change(t, url, eventRow("studio", fmt.Sprint("s", n), 1, 0))
	}
	numbered := make(chan error, 2)
	for _, l := range []*ledger.Ledger{one, other} {
		go func() {
			_, err := l.NumberEvents(context.WithoutCancel(t.Context()))
			numbered <- err
		}()
	}
	for range 2 {
		if err := <-numbered; err != nil {
			t.Error(err)
		}
	}
	all, err := one.Feed(t.Context(), nil, 0, 2000)
	if err != nil || len(all) != 1200 || all[len(all)-1].Position != 1200 {
		t.Errorf("got %d events, want 1200 with the positions 1 to 1200; the error is %v", len(all), err)
	}
}

func TestFeedStateReportsDeletedEvents(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		change(t, url, eventRow("studio", "old", 1, ledger.KeepEvents+time.Hour))
		change(t, url, eventRow("studio", "new", 1, 0))
		feed(t, l, nil, 0)
		if err := l.ForgetEvents(t.Context()); err != nil {
			t.Fatal(err)
		}
		state, err := l.FeedState(t.Context(), "first")
		if err != nil || state.Deleted == 0 || state.Last != 2 || time.Since(state.Oldest) > time.Hour {
			t.Errorf("the state of the feed is %+v, %v", state, err)
		}
		if again, _ := l.FeedState(t.Context(), "second"); state.ID != "first" || again.ID != "first" {
			t.Errorf("the ID of the feed is %q and then %q, want \"first\" both times", state.ID, again.ID)
		}
	})
}

func TestRestoredLedgerHasNewFeedID(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		before, err := l.FeedState(t.Context(), "before")
		if err != nil {
			t.Fatal(err)
		}
		closeLedger(t, l)
		if _, err := ledger.Restored(t.Context(), url, ledger.By{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		after, err := open(t, url).FeedState(t.Context(), "after")
		if err != nil || before.ID == after.ID {
			t.Errorf("the ID of the feed is %q before and %q after: %v", before.ID, after.ID, err)
		}
	})
}

func TestFeedStartsAtRequestedTime(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for n, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour} {
			change(t, url, eventRow("studio", fmt.Sprint("s", n), 1, age))
		}
		at, err := l.FeedStart(t.Context(), nil, time.Now().Add(-150*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if ids, _ := feed(t, l, nil, at); strings.Join(ids, " ") != "s1-1 s2-1" {
			t.Errorf("the feed starts with %q", ids)
		}
		if at, err = l.FeedStart(t.Context(), nil, time.Now()); err != nil {
			t.Fatal(err)
		}
		if ids, _ := feed(t, l, nil, at); len(ids) != 0 {
			t.Errorf("after the last event, the feed contains %q", ids)
		}
	})
}
