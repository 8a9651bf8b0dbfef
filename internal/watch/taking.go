package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
)

// learn takes in what the book has after the cursor, as if it had been polled here. It reports whether there is more.
func (s *sharing) learn(t *tenant, news shared.News, now time.Time) (more bool) {
	if s.isAnother(news.Key) {
		return true // from the beginning
	}
	s.note(t, news.Key, now)
	for i := range news.States {
		s.take(t, &news.States[i], now)
	}
	if after := news.Next; after.Version > s.after.Version || after.Version == s.after.Version && after.ID > s.after.ID {
		s.after = after
	}
	if !news.More {
		s.read = true
		s.swept(t, now)
	}
	return news.More
}

// isAnother reports whether the book has been emptied since it was asked last, and forgets what it had.
func (s *sharing) isAnother(key shared.Key) bool {
	if key.Born == s.key.Born {
		return false
	}
	known := s.key.Born != 0
	if known {
		s.forget(s.apiKey)
	}
	s.key = key
	return known
}

// note takes in what the book says of the API key.
func (s *sharing) note(t *tenant, key shared.Key, now time.Time) {
	s.key = key
	s.replicas.seen(key.Replicas, now)
	if until := s.local(key.PausedUntil, now); until.After(latest(now, t.budget.Paused())) {
		t.budget.Throttled(now, until.Sub(now))
		t.health.condition = ConditionThrottled
	}
	if s.found.fullList == nil && t.list.fullRecords != key.FullList {
		t.list.fullRecords = key.FullList
		t.applyHints(&pollResult{}, now)
	}
	if key.Swept > s.sweep {
		s.sweep, s.begun = key.Swept, s.local(key.Swept, now)
		if !t.list.sweeping {
			t.list.begun(s.begun, s.jitter(s.sweep, s.apiKey))
		}
	}
	s.holds = time.Time{}
	if key.Seen < key.Swept {
		s.holds = s.begun.Add(hold)
	}
}

// swept takes in that a list has carried what the book says it did.
func (s *sharing) swept(t *tenant, now time.Time) {
	if s.key.Seen <= s.seen {
		return
	}
	s.seen = s.key.Seen
	at := s.local(s.seen, now)
	t.health.heard(at)
	t.authenticate(now)
	for _, e := range t.order {
		switch r, known := s.rows[e.id]; {
		case !known || e.listing.hint != nil:
		case r.listed != "" && r.listed == e.listing.etag:
			e.listing.seenAt = latest(e.listing.seenAt, at)
			s.confirm(t, e, at, now)
		case r.listed == "" && t.list.serves(e, now) && t.wanted(e, now):
			e.listing.readSinglyUntil = now.Add(listPause)
			if e.polling.claimed <= s.seen { // nobody has read it since
				t.pollAt(e, earliest(e.polling.due, now))
			}
		}
	}
}

// confirm takes in that the book's state was current at a time.
func (s *sharing) confirm(t *tenant, e *entry, at, now time.Time) {
	if e.state.State == 0 || e.goneByNotFound() || at.Before(e.state.ObserveTime) {
		return
	}
	if e.fresh {
		e.confirm(at)
		t.scheduleNext(e, at)
		return
	}
	state := e.state
	state.ObserveTime = at
	s.apply(t, e, now, func() { t.apply(e, state, e.etag, &pollResult{}) })
}

// apply takes a state in. One that is too old to be delivered is read again first.
func (s *sharing) apply(t *tenant, e *entry, now time.Time, apply func()) {
	was := e.fresh
	apply()
	if !was && e.fresh && t.stale(e, now) {
		e.fresh = false
		t.pollAt(e, now)
		return
	}
	if !was && e.fresh {
		t.list.sweepAt = time.Time{} // which was planned without it, too late
	}
	if e.fresh && e.listing.hint == nil {
		t.scheduleNext(e, e.state.ObserveTime)
	}
}

// take takes in a state.
func (s *sharing) take(t *tenant, st *shared.State, now time.Time) {
	known := s.rows[st.ID]
	if st.Version < known.version {
		return
	}
	r, carried := row{version: st.Version, etag: st.Etag}, st.Listed != nil && *st.Listed != ""
	if st.Listed != nil {
		r.listed = *st.Listed
	}
	s.rows[st.ID] = r
	e := t.entries[st.ID]
	if e == nil && carried && len(t.everything) > 0 {
		e = t.ensure(st.ID, now)
	}
	if e == nil {
		return
	}
	e.polling.asked, e.polling.claimed = true, max(e.polling.claimed, st.Claimed)
	if carried {
		t.addListed(e, now)
	}
	s.takeRecord(t, e, st, r, now)
	if claimed := s.local(st.Claimed, now); st.Claimed > st.Seen { // another's read may be on its way
		if e.fresh && e.listing.hint == nil {
			t.scheduleNext(e, claimed)
		}
		t.pollAt(e, latest(e.polling.due, claimed.Add(hold)))
	}
}

// takeRecord takes in the record of a state, as an answer of the catalog.
func (s *sharing) takeRecord(t *tenant, e *entry, st *shared.State, r row, now time.Time) {
	read, ok := s.readRecord(st.ID, st.Record)
	r.byList = read.Listed
	s.rows[st.ID] = r
	at := s.local(st.Seen, now)
	if !ok || e.state.State != 0 && at.Before(e.state.ObserveTime) {
		return
	}
	t.health.heard(at)
	t.authenticate(now)
	result := &pollResult{}
	g := read.Generation
	g.ObserveTime = at
	switch {
	case g.State == catalog.StateDeleted:
		s.takeGone(t, e, read, now)
		return
	case read.Listed:
		t.stats.Taken++
		s.apply(t, e, now, func() {
			version := catalog.Version{Generation: g, Etag: st.Etag}
			t.mergeRecord(e, &version, result, now)
		})
		return
	}
	e.listing.hint, e.listing.etag = nil, r.listed
	if e.etag == st.Etag {
		s.confirm(t, e, at, now)
		return
	}
	t.stats.Taken++
	s.apply(t, e, now, func() { t.apply(e, g, st.Etag, result) })
}

// takeGone takes in that a generation is gone.
func (s *sharing) takeGone(t *tenant, e *entry, read record, now time.Time) {
	switch {
	case e.deleted:
	case read.Deleted:
		t.stats.Taken++
		t.deleted(e, nil, now)
	case !e.goneByNotFound() && !e.justCreated(now):
		t.stats.Taken++
		t.noteGone(e, &pollResult{}, now, read.Lasting)
	}
	t.scheduleNext(e, now)
}
