package watch

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/watch/history"
)

// newSharingTenant makes a tenant without a poller, which shares polls, and somebody who watches some generations.
func newSharingTenant(t *testing.T, now time.Time, ids ...string) *tenant {
	t.Helper()
	cfg, err := Config{Upstream: unlisted{}, Book: struct{ Book }{}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	one := &tenant{agenda: newAgenda(&cfg, &history.Book{}, testCred, now)}
	one.sharing.follow(testCred)
	req := Request{IDs: ids}
	one.begin(newWatcher(&req, func() {}, nil), &req, now)
	return one
}

func queuedAt(id string, at time.Time) catalog.Version {
	return catalog.Generation{ID: id, State: catalog.StateQueued, ObserveTime: at}.Version()
}

// said is a row of the book with what the list has said.
func said(s *sharing, id string, version int64, at time.Time) shared.State {
	v := queuedAt(id, at)
	s.change(id, v.Etag, &v.Etag, record{Generation: v.Generation, Listed: true}, at)
	c := s.found.changes[id]
	return shared.State{ID: id, Version: version, Seen: at.UnixMicro(), Etag: *c.Etag, Listed: c.Listed, Record: *c.Record}
}

func TestAClaimIsNotedOfAnOlderState(t *testing.T) {
	now := time.Now()
	one := newSharingTenant(t, now, "a")
	s, e := one.sharing, one.entries["a"]
	s.key.Now = now.UnixMicro()
	st := said(s, "a", 7, now.Add(-time.Second))
	s.take(one, &st, now)
	older := shared.State{ID: "a", Version: 5, Claimed: now.UnixMicro(), Seen: now.Add(-time.Minute).UnixMicro()}
	s.take(one, &older, now)
	if e.polling.claimed != older.Claimed || e.polling.due.Before(now.Add(hold)) {
		t.Errorf("a claim of now is known as %d, and the next poll is due in %v", e.polling.claimed, e.polling.due.Sub(now))
	}
	if r := s.rows["a"]; r.version != 7 || r.etag != st.Etag {
		t.Errorf("an older state takes the place of a newer one: %+v", r)
	}
}

func TestARowThatTheBookHasForgottenIsWrittenAnew(t *testing.T) {
	now := time.Now()
	one := newSharingTenant(t, now, "a")
	s, e := one.sharing, one.entries["a"]
	s.key.Now, s.key.FullList = now.UnixMicro(), true
	st := said(s, "a", 7, now.Add(-time.Second))
	s.take(one, &st, now)
	s.found = newFindings()
	s.take(one, &shared.State{ID: "a", Claimed: now.UnixMicro()}, now)
	s.foundRead(e, queuedAt("a", now))
	if _, written := s.found.changes["a"]; !written {
		t.Error("a read that finds the state of before is not written, and the book has none")
	}
}

func TestARecordThatCannotBeOpenedIsReadSinglyOnceAMinute(t *testing.T) {
	now := time.Now()
	one := newSharingTenant(t, now, "a")
	s, e := one.sharing, one.entries["a"]
	s.key.Now = now.UnixMicro()
	st := said(s, "a", 7, now)
	s.take(one, &st, now)
	s.found = newFindings()
	for range 2 {
		due := now.Add(5 * time.Second)
		one.pollAt(e, due)
		st.Version, st.Record = st.Version+1, "of another make"
		s.take(one, &st, now)
		if st.Version == 8 && (e.polling.due.After(now) || one.list.serves(e, now)) || st.Version == 9 && !e.polling.due.Equal(due) {
			t.Errorf("version %d: the next poll is due in %v", st.Version, e.polling.due.Sub(now))
		}
	}
	s.foundRead(e, queuedAt("a", now))
	if _, written := s.found.changes["a"]; !written {
		t.Error("an own answer does not take the place of a record that nobody can open")
	}
}

// The clock of the book is set back by an hour. What it has is dated in the future then.
func TestABookWhoseClockWasSetBackIsReadFromTheBeginning(t *testing.T) {
	now := time.Now()
	one := newSharingTenant(t, now, "a")
	s, e := one.sharing, one.entries["a"]
	key := shared.Key{Born: 1, Version: 7, Now: now.UnixMicro(), Swept: now.UnixMicro(), Seen: now.UnixMicro()}
	s.key.Now = key.Now
	st := said(s, "a", 7, now)
	if s.learn(one, shared.News{Key: key, States: []shared.State{st}, Next: shared.Cursor{Version: 8}}, now) {
		t.Fatal("there is more of a book that was read")
	}
	e.polling.claimed = key.Now
	now = now.Add(time.Second)
	key.Now += (time.Second - time.Hour).Microseconds()
	if !s.learn(one, shared.News{Key: key}, now) || s.read || s.after != (shared.Cursor{}) || e.polling.claimed != 0 {
		t.Errorf("the book is not read from the beginning: %+v, %d", s.after, e.polling.claimed)
	}
	st.Claimed = st.Seen + 1
	s.learn(one, shared.News{Key: key, States: []shared.State{st}, Next: shared.Cursor{Version: 8}}, now)
	if e.polling.due.After(now.Add(one.cfg.MaxInterval*2)) || one.list.sweptAt.After(now) || e.state.ObserveTime.After(now) {
		t.Errorf("the next poll is due in %v, the last sweep was %v ago, the state is of %v", e.polling.due.Sub(now), now.Sub(one.list.sweptAt), now.Sub(e.state.ObserveTime))
	}
	now = now.Add(time.Second)
	key.Now += time.Second.Microseconds()
	key.Swept, key.Seen = key.Now, key.Now
	s.learn(one, shared.News{Key: key, Next: shared.Cursor{Version: 8}}, now)
	if s.sweep != key.Now || e.state.ObserveTime.Before(now) {
		t.Errorf("a sweep is known of %d, which was claimed at %d, and the state is as old as %v", s.sweep, key.Now, now.Sub(e.state.ObserveTime))
	}
}

// A claim is made while an answer of the book is on its way that does not have it.
func TestAnAnswerOfTheBookThatWasOvertakenSaysNothing(t *testing.T) {
	now := time.Now()
	one := newSharingTenant(t, now, "a")
	s := one.sharing
	older := shared.Key{Born: 1, Now: now.UnixMicro(), Swept: now.Add(-time.Second).UnixMicro(), Seen: now.Add(-time.Second).UnixMicro() + 1}
	claimed := shared.Key{Born: 1, Now: older.Now + 1000, Swept: older.Now + 1000, Seen: older.Seen}
	s.isAnother(one, claimed)
	s.note(one, claimed, now)
	if s.learn(one, shared.News{Key: older}, now) || s.sweep != claimed.Swept || s.key != claimed || !s.holds.After(now) {
		t.Errorf("the last claim of a sweep is known as %d, want %d; it holds for %v", s.sweep, claimed.Swept, s.holds.Sub(now))
	}
}

func TestNoAnswerTakesADeletionOutOfTheBook(t *testing.T) {
	now := time.Now()
	one := newSharingTenant(t, now, "a")
	s, e := one.sharing, one.entries["a"]
	one.deleted(e, nil, now)
	s.foundGone(e)
	deleted := *s.found.changes["a"].Etag
	s.foundRead(e, queuedAt("a", now))
	s.foundList(one, []catalog.Version{queuedAt("a", now)}, now)
	if got := *s.found.changes["a"].Etag; got != deleted {
		t.Errorf("the book is told the state %q after the deletion %q", got, deleted)
	}
}

func TestWhatTheListDropsIsForgotten(t *testing.T) {
	now := time.Now()
	one := newSharingTenant(t, now, "a")
	s := one.sharing
	s.firstList = false
	s.foundList(one, []catalog.Version{queuedAt("a", now), queuedAt("b", now), queuedAt("c", now)}, now)
	s.foundList(one, []catalog.Version{queuedAt("c", now)}, now)
	if s.keep(one, now); len(s.rows) != 3 {
		t.Errorf("%d rows are known while changes of 3 wait", len(s.rows))
	}
	s.found = newFindings()
	now = now.Add(keepEvery)
	s.keep(one, now)
	_, watched := s.rows["a"]
	if _, listed := s.rows["c"]; !watched || !listed || len(s.rows) != 2 {
		t.Errorf("%v is known, want what is watched and what is listed", s.rows)
	}
}
