package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/shared"
)

const (
	claimTimeout = 500 * time.Millisecond // after it a book counts as away
	bookTimeout  = 5 * time.Second        // of the first reading of a book that is not known to be away
)

// question is what is asked of the book before some polls.
type question struct {
	apiKey string
	ask    shared.Ask
	unread []string // generations of which the book may have what nobody here has seen
	first  bool     // nothing was claimed: the book is to be read first
	alone  bool     // the book is not asked: it does not answer, or may not hear of the API key yet
}

// share makes the polls that the book grants, and takes in what others have found in place of the rest.
func (p *poller) share(polls []*job) {
	q := p.question(polls)
	if !q.alone && !q.first {
		var granted []*job
		granted, polls = p.claim(&q, polls)
		p.logClaim("a poll is claimed", granted)
		p.logClaim("a poll is refused, as another replica has it or the rate is used up", polls)
		p.makeAll(p.inTurn(granted))
	}
	switch {
	case q.alone:
		p.makeAll(p.inTurn(polls))
	case q.first || q.unread != nil:
		p.readBook(q.unread, polls...)
	default:
		p.putBack(polls)
	}
}

// inTurn gives the polls whose turn still holds, or that have one soon, and has the others planned anew: a pause has begun
// while the book was asked.
func (p *poller) inTurn(polls []*job) (held []*job) {
	ctx, cancel := context.WithTimeout(p.hub.ctx, claimTimeout)
	defer cancel()
	var late []*job
	for _, j := range polls {
		if j.turn == nil {
			j.turn, _ = p.tenant.gate().Enter(ctx, wish)
		}
		if j.turn.Holds() {
			held = append(held, j)
		} else {
			late = append(late, j)
		}
	}
	if len(late) > 0 {
		p.putBack(late)
	}
	return held
}

// subscribe has the poller told of news under the API key of now.
func (p *poller) subscribe() {
	if p.tenant.sharing == nil {
		return
	}
	if apiKey := p.tenant.cred.APIKeySum(); apiKey != p.subscribed {
		p.unsubscribe()
		p.subscribed = apiKey
		p.changed, p.unsubscribe = p.hub.cfg.Book.Changed(apiKey)
	}
}

// question makes the question about some polls.
func (p *poller) question(polls []*job) (q question) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now, s := time.Now(), t.sharing
	cred := t.cred.Pinned()
	q.apiKey = s.follow(cred)
	s.keep(t, now)
	for _, j := range polls {
		j.cred, j.apiKey = cred, q.apiKey
	}
	if s.away && now.Before(s.tryAt) || s.read && !t.accepted() {
		q.alone = true
		p.countAll(polls)
		return q
	}
	s.tryAt = now.Add(tryEvery)
	q.ask = shared.Ask{Replica: s.replica, Rate: t.gate().State().PollRate, Spent: s.spent, Everything: len(t.everything) > 0, LastSweep: s.sweep}
	for _, j := range polls {
		for _, e := range j.entries {
			if !e.polling.asked {
				q.unread = append(q.unread, e.id)
			}
		}
		if j.ID == "" {
			q.ask.Sweep = true
		} else {
			q.ask.Reads = append(q.ask.Reads, shared.Read{ID: j.ID, Last: j.entries[0].polling.claimed})
		}
	}
	q.first = len(q.unread) > 0 || !s.read
	return q
}

// claim claims polls. It gives those that are granted, all where the book does not answer, and those that are not.
func (p *poller) claim(q *question, polls []*job) (granted, refused []*job) {
	ctx, cancel := context.WithTimeout(p.hub.ctx, claimTimeout)
	defer cancel()
	claim, err := p.hub.cfg.Book.Claim(ctx, q.apiKey, q.ask)
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now, s := time.Now(), t.sharing
	if err != nil {
		if !s.away {
			p.lost(err, now)
			t.gate().SetPollRate(t.rate())
			return nil, polls // which were planned at the rate of all
		}
		p.lost(err, now)
		p.countAll(polls)
		return polls, nil
	}
	p.found()
	s.spent = max(s.spent-q.ask.Spent, 0)
	if s.apiKey == q.apiKey {
		s.isAnother(t, claim.Key)
		s.note(t, claim.Key, now)
	}
	if claim.Again > 0 {
		s.again = s.local(claim.Again, now)
	}
	for _, j := range polls {
		if p.isGranted(j, &claim) {
			granted = append(granted, j)
		} else {
			j.refused = true
			refused = append(refused, j)
			q.unread = append(q.unread, j.ID)
		}
	}
	if claim.Key.Version >= s.after.Version && q.unread == nil {
		q.unread = []string{}
	}
	p.countAll(granted)
	t.stats.Claimed += int64(len(granted))
	return granted, refused
}

// logClaim logs what has come of a claim.
func (p *poller) logClaim(message string, polls []*job) {
	if !p.hub.cfg.Logger.Enabled(p.hub.ctx, slog.LevelDebug) {
		return
	}
	for _, j := range polls {
		p.hub.cfg.Logger.Debug(message, "kind", j.Kind(), "generation", j.ID, "api_key", j.Tenant.Fingerprint())
	}
}

// isGranted reports whether a poll is granted, and notes when it was.
func (p *poller) isGranted(j *job, claim *shared.Claim) bool {
	t := p.tenant
	if j.ID == "" {
		if claim.Sweep && !t.sharing.begun.IsZero() {
			t.list.begun(t.sharing.begun, t.sharing.jitter(t.sharing.sweep, t.sharing.apiKey))
		}
		return claim.Sweep
	}
	if claim.Reads[j.ID] {
		j.entries[0].polling.claimed = claim.Key.Now
	}
	return claim.Reads[j.ID]
}

// lost notes that the book does not answer: the polls go on at this process's part of the rate.
func (p *poller) lost(err error, now time.Time) {
	s := p.tenant.sharing
	s.away, s.tryAt = true, now.Add(tryEvery)
	if p.hub.bookAway.CompareAndSwap(false, true) && p.hub.ctx.Err() == nil {
		p.hub.cfg.Logger.Debug("polls alone", "error", err)
	}
}

// found notes that the book answers claims in time.
func (p *poller) found() {
	s := p.tenant.sharing
	if !s.away {
		return
	}
	s.away = false
	p.tenant.gate().SetPollRate(p.tenant.rate())
	s.send()
	if p.hub.bookAway.CompareAndSwap(true, false) {
		p.hub.cfg.Logger.Debug("polls shared")
	}
}

// putBack has polls that were not made planned anew. Those that the book has refused are not asked for at once again,
// whatever it says of them.
func (p *poller) putBack(polls []*job) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now, s := time.Now(), t.sharing
	for _, j := range polls {
		var least time.Time
		if j.refused {
			t.stats.Refused++
		}
		if j.refused && !s.again.After(now) {
			least = now.Add(t.cfg.MinInterval)
		}
		if j.ID != "" {
			p.unmake(j, least)
			continue
		}
		s.holds = latest(s.holds, least)
		p.unmake(j, time.Time{})
		t.list.begun(s.begun, s.jitter(s.sweep, s.apiKey))
	}
	t.queue.blocked = false // the rate has what was not used
	t.queue.wakeBy(now)
}

// reading is what is to be read in the book besides what is new there, and the polls that wait for it.
type reading struct {
	ids   []string
	polls []*job
	again bool // something has come since the last reading began
}

// readBook takes in all that the book has and this process does not know, and what it has of some generations besides.
// Then it has some polls planned anew. One reads at a time: whoever comes meanwhile has the book read once more.
func (p *poller) readBook(ids []string, polls ...*job) {
	if !p.mustRead(ids, polls) {
		return
	}
	for {
		ids, polls, again := p.nextReading()
		if !again {
			return
		}
		for more := true; more; {
			more = p.readPage(ids)
			ids = nil
		}
		if len(polls) > 0 {
			p.putBack(polls)
		}
	}
}

// mustRead notes what is to be read, and reports whether nobody reads.
func (p *poller) mustRead(ids []string, polls []*job) bool {
	p.tenant.mu.Lock()
	defer p.tenant.mu.Unlock()
	first := p.toRead == nil
	if first {
		p.toRead = &reading{}
	}
	r := p.toRead
	r.ids, r.polls, r.again = append(r.ids, ids...), append(r.polls, polls...), true
	return first
}

// nextReading takes what is to be read next, if anything is.
func (p *poller) nextReading() (ids []string, polls []*job, again bool) {
	p.tenant.mu.Lock()
	defer p.tenant.mu.Unlock()
	r := *p.toRead
	if p.toRead = nil; r.again {
		p.toRead = &reading{}
	}
	return r.ids, r.polls, r.again
}

// readPage reads one answer of the book.
func (p *poller) readPage(ids []string) (more bool) {
	t := p.tenant
	t.mu.Lock()
	s := t.sharing
	apiKey, after, timeout := s.follow(t.cred), s.after, claimTimeout
	if !s.read && !s.away && !p.hub.bookAway.Load() { // else each new API key waits for a book that hangs
		timeout = bookTimeout
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.hub.ctx, timeout)
	defer cancel()
	news, err := p.hub.cfg.Book.News(ctx, apiKey, after, ids)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	defer t.queue.wakeBy(now)
	switch {
	case err != nil:
		p.lost(err, now)
		return false
	case s.apiKey != apiKey:
		return false
	}
	for _, id := range ids {
		if e := t.entries[id]; e != nil {
			e.polling.asked = true
		}
	}
	return s.learn(t, news, now)
}

// writeBook writes what was found, until nothing is left or the book does not answer.
func (p *poller) writeBook() {
	for {
		apiKey, sent := p.takeFound()
		if sent == nil {
			return
		}
		written, err := p.hub.cfg.Book.Write(p.hub.ctx, apiKey, sent.message())
		if !p.wrote(apiKey, sent, written, err) {
			return
		}
	}
}

// takeFound takes what waits to be written; nil: nothing does, or another writes.
func (p *poller) takeFound() (apiKey string, sent *findings) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sharing
	if s.writing || s.found.isEmpty() || !t.accepted() {
		return "", nil
	}
	taken := s.found
	s.writing, s.found = true, newFindings()
	return s.apiKey, &taken
}

// message is what the book is told of findings.
func (f *findings) message() (m shared.Found) {
	m.Swept, m.FullList, m.Pause = f.swept, f.fullList, f.pause
	for _, c := range f.changes {
		c.At = c.at
		m.Changes = append(m.Changes, c.Change)
	}
	for id, found := range f.same {
		m.Same = append(m.Same, shared.Same{ID: id, At: found.at, Etag: found.etag})
	}
	return m
}

// wrote notes that findings were written, or puts them back. It reports whether to go on.
func (p *poller) wrote(apiKey string, sent *findings, written shared.Written, err error) bool {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	s, now := t.sharing, time.Now()
	s.writing = false
	if len(t.entries) == 0 {
		t.queue.wakeBy(now) // it may have stayed for this alone
	}
	switch {
	case err != nil:
		p.lost(err, now)
		if s.apiKey == apiKey {
			s.found.putBack(sent)
			s.writeAt = now.Add(tryEvery)
			t.queue.wakeBy(s.writeAt)
		}
		return false
	case s.apiKey != apiKey:
		return true
	}
	if !sent.swept.IsZero() {
		s.holds = time.Time{}
	}
	if written.Last > 0 && s.after == (shared.Cursor{Version: written.First}) { // nobody else has written since
		s.after.Version = written.Last + 1
	}
	for _, id := range written.Unknown {
		s.renew(id, sent.same[id])
	}
	return true
}

// renew puts what a read has found among the changes, as the book has lost what it had.
func (s *sharing) renew(id string, found same) {
	if !s.found.answered(id) {
		s.change(id, found.etag, nil, found.record, found.at)
	}
}

// answered reports whether an answer to a read waits.
func (f *findings) answered(id string) bool {
	_, again := f.same[id]
	return again || f.changes[id].Record != nil
}

// putBack puts findings back that were not written.
func (f *findings) putBack(sent *findings) {
	for id, found := range sent.same {
		if !f.answered(id) {
			f.same[id] = found
		}
	}
	for id, c := range sent.changes {
		f.changes[id] = f.after(c)
	}
	f.swept, f.pause = latest(f.swept, sent.swept), latest(f.pause, sent.pause)
	if f.fullList == nil {
		f.fullList = sent.fullList
	}
}

// after is a change with what waits that was found since.
func (f *findings) after(c change) change {
	if newer, ok := f.changes[c.ID]; ok {
		at := newer.at
		if newer.Record == nil && c.Record != nil {
			at = c.at // of the record
		}
		c = newer.over(c)
		c.at = at
	}
	if again, ok := f.same[c.ID]; ok && c.Etag != nil && again.etag == *c.Etag {
		c.at = latest(c.at, again.at)
		delete(f.same, c.ID)
	}
	return c
}
