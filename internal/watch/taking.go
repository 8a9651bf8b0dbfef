package watch

import (
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
)

// learn takes in what the book has after the cursor, as if it had been polled here. It reports whether there is more.
func (s *sharing) learn(t *tenant, news shared.News, now time.Time) (more bool) {
	if s.isAnother(t, news.Key) {
		return true // from the beginning
	}
	s.note(t, news.Key, now)
	if news.Key.Seen > 0 {
		t.heard(s.past(news.Key.Seen, now), now)
	}
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

// isAnother reports whether the book has been emptied, or its clock set back, since it was asked last, and forgets what it
// had.
func (s *sharing) isAnother(t *tenant, key shared.Key) bool {
	if key.Born == s.key.Born && key.Now > s.key.Now-setBack.Microseconds() {
		return false
	}
	known := s.key.Born != 0
	if known {
		s.forget(s.apiKey)
		for _, e := range t.order {
			e.polling.claimed = 0
		}
	}
	s.key = key
	return known
}

// note takes in what the book says of the API key. An answer that was overtaken by a newer one says nothing.
func (s *sharing) note(t *tenant, key shared.Key, now time.Time) {
	if key.Now < s.key.Now {
		return
	}
	s.key = key
	s.replicas.seen(key.Replicas, now)
	t.gate().Pause(s.local(key.PausedUntil, now))
	if s.found.fullList == nil && t.list.fullRecords != key.FullList {
		t.list.fullRecords = key.FullList
		t.applyHints(&pollResult{}, now)
	}
	if key.Swept > s.sweep || key.Swept < s.sweep && s.sweep > key.Now {
		s.sweep, s.begun = key.Swept, s.past(key.Swept, now)
		if t.list.sweep == nil {
			t.list.begun(s.begun, s.jitter(s.sweep, s.apiKey))
		}
	}
	s.holds = time.Time{}
	if key.Seen < key.Swept {
		s.holds = s.begun.Add(hold)
	}
}

// swept takes in that a list has carried what the book says it did. What the book does not know, or where the list says
// something else than the state here, is read singly: nobody else may want it.
func (s *sharing) swept(t *tenant, now time.Time) {
	if s.key.Seen <= s.seen || s.key.Seen > s.key.Now {
		return
	}
	s.seen = s.key.Seen
	at := s.past(s.seen, now)
	t.heard(at, now)
	for _, e := range t.order {
		listed := e.listing.etag != "" && s.rows[e.id].listed == e.listing.etag
		if listed {
			e.listing.seenAt = latest(e.listing.seenAt, at)
		}
		switch {
		case e.listing.hint != nil:
		case listed && e.listing.has(e.state.State):
			s.confirm(t, e, at, now)
		case e.state.ObserveTime.Before(at) && t.list.serves(e, now) && t.wanted(e, now):
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

// apply takes a state in. One that is too old to be delivered is read again first, and so is any where the catalog may
// have revoked the API key since.
func (s *sharing) apply(t *tenant, e *entry, now time.Time, apply func()) {
	was := e.fresh
	apply()
	if !was && e.fresh && (t.stale(e, now) || !t.proven()) {
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

// take takes in a state. One that is older than what is known may have a newer claim. The version 0 is no older one: the
// book had forgotten the generation, and a claim has made its row anew.
func (s *sharing) take(t *tenant, st *shared.State, now time.Time) {
	e := t.entries[st.ID]
	if e != nil {
		e.polling.asked, e.polling.claimed = true, max(e.polling.claimed, st.Claimed)
	}
	if st.Version == 0 || st.Version >= s.rows[st.ID].version {
		e = s.takeRow(t, e, st, now)
	}
	if claimed := s.past(st.Claimed, now); e != nil && st.Claimed > st.Seen { // another's read may be on its way
		if e.fresh && e.listing.hint == nil {
			t.scheduleNext(e, claimed)
		}
		t.pollAt(e, latest(e.polling.due, claimed.Add(hold)))
	}
}

// takeRow takes in the newest row of a generation. It gives its entry, which may be new; nil: there is none.
func (s *sharing) takeRow(t *tenant, e *entry, st *shared.State, now time.Time) *entry {
	r, carried := row{version: st.Version, etag: st.Etag, at: s.past(st.Seen, now)}, st.Listed != nil && *st.Listed != ""
	if st.Listed != nil {
		r.listed = *st.Listed
	}
	s.rows[st.ID] = r
	if e == nil && carried && t.wantsListed(st.ID) {
		e = t.ensure(st.ID, now)
		e.polling.asked, e.polling.claimed = true, st.Claimed
	}
	if t.list.carried != nil && st.Listed != nil {
		t.list.carried[st.ID] = carried
	}
	if e == nil {
		return nil
	}
	if carried {
		t.addListed(e, now)
	}
	if st.Record != "" {
		s.takeRecord(t, e, st, r, now)
	}
	return e
}

// takeRecord takes in the record of a state, as an answer of the catalog. Where it can't be opened, an own answer is to
// take its place.
func (s *sharing) takeRecord(t *tenant, e *entry, st *shared.State, r row, now time.Time) {
	read, ok := s.readRecord(st.ID, st.Record)
	if !ok {
		r.etag = ""
		s.rows[st.ID] = r
		if !now.Before(e.listing.readSinglyUntil) {
			t.readSingly(e, now)
		}
		return
	}
	r.byList = read.Listed
	s.rows[st.ID] = r
	if e.state.State != 0 && r.at.Before(e.state.ObserveTime) {
		e.listing.etag, e.listing.state = r.listed, read.listState()
		return
	}
	t.heard(r.at, now)
	result := &pollResult{}
	g := read.Generation
	g.ObserveTime = r.at
	switch {
	case g.State == catalog.StateDeleted:
		s.takeGone(t, e, read, r.at, now)
		return
	case read.Listed:
		t.stats.Taken++
		s.apply(t, e, now, func() {
			version := catalog.Version{Generation: g, Etag: st.Etag}
			t.mergeRecord(e, &version, result, now)
		})
		return
	}
	e.listing.hint, e.listing.etag, e.listing.state = nil, r.listed, read.listState()
	if e.etag == st.Etag {
		s.confirm(t, e, r.at, now)
		return
	}
	t.stats.Taken++
	s.apply(t, e, now, func() { t.apply(e, g, st.Etag, result) })
}

// takeGone takes in that a generation is gone, or that a read at a time has not found it. Where it is known here, that
// read counts as one of this process.
func (s *sharing) takeGone(t *tenant, e *entry, read record, at, now time.Time) {
	switch {
	case e.deleted:
	case read.Deleted:
		t.stats.Taken++
		t.deleted(e, nil, now)
	case e.goneByNotFound() || e.justCreated(now):
	case read.Lasting || !e.exists():
		t.stats.Taken++
		t.noteGone(e, &pollResult{}, now, read.Lasting)
	case at.Sub(e.absence.Since) < hold: // the same read, or an older one
		return
	case t.lasts(e, at):
		t.stats.Taken++
		t.noteGone(e, &pollResult{}, now, true)
	default:
		t.retry(e, errNotFound, t.cfg.MaxInterval, now)
		return
	}
	t.scheduleNext(e, now)
}

// errNotFound is why a generation is read again that another process has not found.
var errNotFound = errors.New("a read has not found the generation")
