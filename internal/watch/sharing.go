package watch

import (
	"bytes"
	"context"
	"encoding/json"
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
	// Changed has a value after a change. One that is missed costs a delay.
	Changed(apiKey string) (changed <-chan struct{}, stop func())
}

const (
	hold     = shared.HoldMicros * time.Microsecond
	tryEvery = time.Second // between two questions to a book that does not answer
)

// sharing is what a tenant knows of the book, and what waits to be written there. The tenant's mutex guards it.
type sharing struct {
	replica string
	apiKey  string // the rest is of
	seal    seal   // of its records

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

	firstList bool     // no list was read here yet
	found     findings // that wait to be written
	writing   bool
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
	byList       bool // its record is the list's, which may say less than a read
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
}

func newSharing(replica string) *sharing {
	s := &sharing{replica: replica, unsent: make(chan struct{}, 1)}
	s.forget("")
	return s
}

// forget forgets all that was of another API key, or of a book that was emptied.
func (s *sharing) forget(apiKey string) {
	*s = sharing{replica: s.replica, unsent: s.unsent, apiKey: apiKey, seal: s.seal, away: s.away, tryAt: s.tryAt, writing: s.writing,
		firstList: true, rows: map[string]row{}, found: newFindings()}
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

// jitter is the same for all processes that know of the same poll: the least of several would make more polls.
func (s *sharing) jitter(claimed int64, name string) float64 {
	source := schedule.NewSource(uint64(claimed), name) //nolint:gosec // of the bits alone
	return source.Draw()
}

// send says that something waits to be written.
func (s *sharing) send() {
	select {
	case s.unsent <- struct{}{}:
	default:
	}
}

// foundRead notes the answer to a read.
func (s *sharing) foundRead(id string, v catalog.Version) {
	if s != nil {
		s.put(id, v.Etag, record{Generation: v.Generation}, v.ObserveTime)
	}
}

// foundGone notes that a generation is gone.
func (s *sharing) foundGone(e *entry) {
	if s != nil && e.state.State == catalog.StateDeleted {
		s.put(e.id, e.etag, record{Generation: e.state, Deleted: e.deleted, Lasting: e.absence.Lasting}, e.state.ObserveTime)
	}
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
		s.found.same[id] = same{at, etag, r}
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
	if row.etag, row.byList = etag, r.Listed; listed != nil {
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
		if known && r.listed == v.Etag {
			continue
		}
		if !known && s.firstList && v.State.Terminal() && t.entries[v.ID] == nil && !s.key.Everything {
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

// readRecord reads a record of the book.
func (s *sharing) readRecord(id, sealed string) (r record, ok bool) {
	text, err := s.seal.open(id, sealed)
	if sealed == "" || err != nil {
		return r, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return r, decoder.Decode(&r) == nil
}

// called counts a request of a call.
func (s *sharing) called() {
	if s != nil {
		s.spent++
	}
}
