package watch

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Book is where processes that poll under one API key share its polls: each poll is claimed there first, and what it has
// found is read there by the others. API keys are named by [catalog.Credential.APIKeySum].
type Book interface {
	Claim(ctx context.Context, apiKey string, ask shared.Ask) (shared.Claim, error)
	News(ctx context.Context, apiKey string, after shared.Cursor, ids []string) (shared.News, error)
	Write(ctx context.Context, apiKey string, found shared.Found) (shared.Written, error)
	// Exchange tells others the report of a process's gate, unless it is "", and gives theirs.
	Exchange(ctx context.Context, apiKey, replica, report string) (shared.Others, error)
	// Changed has a value after a change. One that is missed costs a delay.
	Changed(apiKey string) (changed <-chan struct{}, stop func())
}

const (
	hold     = shared.HoldMicros * time.Microsecond
	tryEvery = time.Second // between two questions to a book that does not answer
	setBack  = time.Second // by more of it no answer is overtaken: the clock of the book was set back

	keepEvery = time.Minute      // between two looks for rows that the book is to keep, and for those to forget here
	keepAfter = 20 * time.Minute // after the last answer that the book is known to have; it forgets rows after an hour
)

// sharing is what a tenant knows of the book, and what waits to be written there. The tenant's mutex guards it.
type sharing struct {
	replica  string
	replicas *replicas
	apiKey   string // the rest is of
	seal     seal   // of its records

	key   shared.Key
	after shared.Cursor
	read  bool // all before after was read, since the book was born
	rows  map[string]row
	again time.Time // no claim before: the rate is used up, or the catalog has asked for a pause
	spent int       // requests since the last claim that were not claimed
	away  bool      // the book does not answer: this process polls for itself
	tryAt time.Time // when an absent book is asked again
	seen  int64     // the last answer to a sweep that was taken in
	sweep int64     // the last claim of one
	begun time.Time // the same by the clock of this process
	holds time.Time // until when another's sweep may be on its way

	keepAt    time.Time // of the next look for rows to keep
	firstList bool      // no list was read here yet
	found     findings  // that wait to be written
	writing   bool
	writeAt   time.Time     // when what could not be written is tried again; zero: there is none
	unsent    chan struct{} // has a value when something waits
}

// findings are what polls have found.
type findings struct {
	changes  map[string]change
	same     map[string]same // reads that have found what the book has
	swept    time.Time       // when the list was read; zero: it was not
	pause    time.Time       // until when nobody may poll; zero: no matter
	fullList *bool
}

func newFindings() findings {
	return findings{changes: map[string]change{}, same: map[string]same{}}
}

func (f *findings) isEmpty() bool {
	return len(f.changes)+len(f.same) == 0 && f.swept.IsZero() && f.pause.IsZero() && f.fullList == nil
}

// row is what the book has of a generation, or is about to have.
type row struct {
	version      int64
	etag, listed string
	byList       bool      // its record is the list's, which may say less than a read
	at           time.Time // of the newest answer that the book has of it
}

// same is a read that has found what the book has.
type same struct {
	at     time.Time
	etag   string
	record record
}

// change is a change that waits to be written.
type change struct {
	shared.Change
	at time.Time // of the answer
}

// over is a change after an older one that waits too.
func (c change) over(older change) change {
	if c.Record == nil {
		c.Etag, c.Record, c.Ended = older.Etag, older.Record, older.Ended
	}
	if c.Listed == nil {
		c.Listed = older.Listed
	}
	return c
}

// record is an answer as it stands in the book. Neither the API key nor an address is in it.
type record struct {
	Generation catalog.Generation
	Listed     bool `json:",omitempty"` // the list has said so
	Deleted    bool `json:",omitempty"` // by a call
	Lasting    bool `json:",omitempty"` // reads have not found it for long enough

	ListState catalog.State `json:",omitempty"` // of the last record in the list, beside that of a read; 0: it is not known
}

func newSharing(cfg *Config) *sharing {
	s := &sharing{replica: cfg.replica, replicas: cfg.replicas, unsent: make(chan struct{}, 1)}
	s.forget("")
	return s
}

// forget forgets all that was of another API key, or of a book that was emptied.
func (s *sharing) forget(apiKey string) {
	*s = sharing{
		replica: s.replica, replicas: s.replicas, unsent: s.unsent, apiKey: apiKey, seal: s.seal, away: s.away, tryAt: s.tryAt,
		writing: s.writing, firstList: true, rows: map[string]row{}, found: newFindings(),
	}
}

// follow takes over a new API key of the credential.
func (s *sharing) follow(cred catalog.Credential) string {
	pinned := cred.Pinned()
	sum := pinned.APIKeySum()
	if sum == s.apiKey {
		return sum
	}
	s.forget(sum)
	s.seal = newSeal(pinned.APIKey())
	return sum
}

// local is a time of the book by the clock of this process.
func (s *sharing) local(micros int64, now time.Time) time.Time {
	return now.Add(-time.Duration(s.key.Now-micros) * time.Microsecond)
}

// past is a time of the book that has passed, by the clock of this process. It is ahead where the book's clock was set back.
func (s *sharing) past(micros int64, now time.Time) time.Time {
	return earliest(s.local(micros, now), now)
}

// of is the sharing while it is of an API key; nil: of the answer to a request under that key nothing is to be written.
func (s *sharing) of(apiKey string) *sharing {
	if s == nil || s.apiKey != apiKey {
		return nil
	}
	return s
}

// jitter is the same for all processes that know of the same poll: the least of several would make more polls.
func (s *sharing) jitter(claimed int64, name string) float64 {
	source := schedule.NewSource(uint64(claimed), name)
	return source.Draw()
}

// send says that something waits to be written.
func (s *sharing) send() {
	select {
	case s.unsent <- struct{}{}:
	default:
	}
}

// writeAgain has what could not be written tried again once that is due, and says when it is; zero: nothing has failed.
func (s *sharing) writeAgain(now time.Time) time.Time {
	switch {
	case s == nil || s.writeAt.IsZero():
		return time.Time{}
	case now.Before(s.writeAt):
		return s.writeAt
	}
	s.writeAt = time.Time{}
	s.send()
	return s.writeAt
}

// foundRead notes the answer to a read.
func (s *sharing) foundRead(e *entry, v catalog.Version) {
	if s != nil && !e.deleted { // else the answer was on its way, and says nothing
		s.put(e.id, v.Etag, record{Generation: v.Generation, ListState: e.listing.state}, v.ObserveTime)
	}
}

// foundGone notes that a generation is gone.
func (s *sharing) foundGone(e *entry) {
	if s != nil && e.state.State == catalog.StateDeleted {
		s.put(e.id, e.etag, recordOf(e), e.state.ObserveTime)
	}
}

// recordOf is the state of an entry as a record.
func recordOf(e *entry) record {
	if e.state.State == catalog.StateDeleted {
		return record{Generation: e.state, Deleted: e.deleted, Lasting: e.absence.Lasting}
	}
	return record{Generation: e.state, ListState: e.listing.state}
}

func (s *sharing) put(id, etag string, r record, at time.Time) {
	waits, changes := s.found.changes[id]
	switch known := s.rows[id]; {
	case known.etag != etag, known.byList && !s.key.FullList: // those who do not trust the list wait for a read
		s.change(id, etag, nil, r, at)
	case changes && waits.Record != nil: // which the book has not yet
		waits.at = at
		s.found.changes[id] = waits
	default:
		known.at = at
		s.rows[id], s.found.same[id] = known, same{at, etag, r}
	}
	s.send()
}

// change puts a change among those that wait.
func (s *sharing) change(id, etag string, listed *string, r record, at time.Time) {
	text, err := json.Marshal(r)
	if err != nil || s.seal.aead == nil { // what was read from JSON can be written as JSON; and nothing is known of the API key yet
		return
	}
	row := s.rows[id]
	if row.etag, row.byList, row.at = etag, r.Listed, at; listed != nil {
		row.listed = *listed
	} else {
		listed = s.found.changes[id].Listed // which waits
	}
	s.rows[id] = row
	written := s.seal.close(id, text)
	s.found.changes[id] = change{shared.Change{ID: id, Etag: &etag, Listed: listed, Record: &written, Ended: r.Generation.State.Terminal()}, at}
	delete(s.found.same, id)
}

// foundFull notes whether records of the list say as much as reads do.
func (s *sharing) foundFull(full bool) {
	if s != nil && s.key.FullList != full {
		s.found.fullList = &full
	}
}

// foundList notes the answer to a sweep: the records that the book has otherwise. Others may watch what nobody watches
// here: what the book has, what has not ended, and, where somebody watches everything, or it is new since the last
// list, all else.
func (s *sharing) foundList(t *tenant, records []catalog.Version, at time.Time) {
	if s == nil {
		return
	}
	listed := make(map[string]bool, len(records))
	for i := range records {
		v := &records[i]
		listed[v.ID] = true
		r, known := s.rows[v.ID]
		e := t.entries[v.ID]
		if known && r.listed == v.Etag || e != nil && e.deleted {
			continue
		}
		if !known && s.firstList && v.State.Terminal() && e == nil && !s.key.Everything {
			s.rows[v.ID] = row{listed: v.Etag}
			continue
		}
		s.change(v.ID, v.Etag, &v.Etag, record{Generation: v.Generation, Listed: true}, at)
	}
	for id, r := range s.rows {
		if r.listed != "" && !listed[id] {
			waits, none := s.found.changes[id], ""
			waits.ID, waits.Listed, waits.at = id, &none, at
			r.listed = none
			s.found.changes[id], s.rows[id] = waits, r
		}
	}
	s.found.swept, s.firstList = at, false
	s.send()
}

// foundThrottled notes a pause that the catalog has asked for.
func (s *sharing) foundThrottled(until time.Time) {
	if s != nil {
		s.found.pause = latest(s.found.pause, until)
		s.send()
	}
}

// tellsPause reports whether a pause that is not over may still have to be written.
func (s *sharing) tellsPause(now time.Time) bool {
	return s != nil && (s.writing || s.found.pause.After(now))
}

// readRecord reads a record of the book.
func (s *sharing) readRecord(id, sealed string) (r record, ok bool) {
	text, err := s.seal.open(id, sealed)
	if sealed == "" || err != nil {
		return r, false
	}
	return r, json.Unmarshal(text, &r) == nil
}

// listState is the state that the list has had; 0: it is not known.
func (r *record) listState() catalog.State {
	if r.Listed {
		return r.Generation.State
	}
	return r.ListState
}

// keep has the book keep what is watched here and what sweeps alone carry, which leaves no trace there. It forgets what
// the list does not carry and nobody watches here.
func (s *sharing) keep(t *tenant, now time.Time) {
	if now.Before(s.keepAt) {
		return
	}
	s.keepAt = now.Add(keepEvery)
	waits := func(id string) bool { return s.found.changes[id].ID != "" }
	for _, e := range t.order {
		r, at := s.rows[e.id], e.state.ObserveTime
		if r.etag != "" && at.Sub(r.at) >= keepAfter && e.listing.hint == nil && t.wanted(e, now) && !waits(e.id) {
			r.at = at
			s.rows[e.id], s.found.same[e.id] = r, same{at, r.etag, recordOf(e)}
			s.send()
		}
	}
	maps.DeleteFunc(s.rows, func(id string, r row) bool { return r.listed == "" && t.entries[id] == nil && !waits(id) })
}

// called counts a request of a call.
func (s *sharing) called() {
	if s != nil {
		s.spent++
	}
}

// replicas is how many processes have claimed polls, under any API key.
type replicas struct {
	mu   sync.Mutex
	most int
	at   time.Time // when so many were last seen
}

// replicasKept is how long fewer replicas say nothing: under another API key there may be more.
const replicasKept = 2 * time.Minute

// seen notes how many have claimed polls under one API key.
func (r *replicas) seen(n int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n >= r.most || now.Sub(r.at) > replicasKept {
		r.most, r.at = n, now
	}
}

// number is the most that were seen of late, while the book could be asked, and 1 at least.
func (r *replicas) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.most, 1)
}
