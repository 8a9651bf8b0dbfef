package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// ContentState is what has become of the copy of a result.
type ContentState int

// What becomes of the copy of a result.
const (
	ContentWaiting ContentState = iota // to be copied
	ContentCopied
	ContentFailed // it could not be copied
	ContentDoomed // to be deleted
)

func (s ContentState) String() string {
	return [...]string{"waiting", "copied", "failed", "to be deleted"}[s]
}

// Content is the copy of a result, or the wish for one.
type Content struct {
	Generation, Owner string
	State             ContentState
	// Claims is how often it was begun to be copied. Whoever has begun last may record what has come of it.
	Claims int64
	// Claimed means that somebody copies it now.
	Claimed bool
	// Age is the time since the copy was wanted, by the database's clock.
	Age time.Duration
	// Problem is the reason of the last failure.
	Problem string
	// Record is what the ledger has of the generation: "" where it was erased.
	Record string

	StoredCopy
}

// StoredCopy is a copy in a store.
type StoredCopy struct {
	// Object is its name there.
	Object string
	Size   int64
	// SHA256 is that of all of it, in hex, and Blocks are checksums of its blocks.
	SHA256, Blocks string
	// ContentType and Etag are those that the catalog gave.
	ContentType, Etag string
	Time              time.Time
}

// selectContents is the beginning of a query for contents, which scanContent scans.
var selectContents = `SELECT generation_id, owner, state, claims, NOT ` + lapsed + `, {now} - begin_time, problem, object, size_bytes, sha256, blocks, content_type, etag, copied_time,
	COALESCE((SELECT record FROM orders WHERE generation_id = contents.generation_id AND namespace <> api_key), '') FROM contents WHERE `

func scanContent(row scanner, c *Content) error {
	age := int64(0)
	err := row.Scan(&c.Generation, &c.Owner, &c.State, &c.Claims, &c.Claimed, &age, &c.Problem,
		&c.Object, &c.Size, &c.SHA256, &c.Blocks, &c.ContentType, &c.Etag, moment{&c.Time}, &c.Record)
	c.Age = time.Duration(age) * time.Microsecond
	return err
}

// keeps reports whether copies stay which an owner deletes. Those of a team that is not in this process's callers file stay
// too: another process may know that it keeps them. Without a callers file, and of anonymous callers, none stays.
func (l *Ledger) keeps(owner string) bool {
	teams := l.teams()
	team, known := teams[owner]
	return team.KeepDeleted || !known && owner != "" && len(teams) > 0
}

// wantsCopy reports whether a change of an order makes a copy of its result necessary: it has succeeded just now, and this
// process has a store.
func (t *transaction) wantsCopy(before, after Order) bool {
	ended := before.Status != lifecycle.Succeeded && after.Status == lifecycle.Succeeded
	return t.l.contents && ended && !after.isForwarded() && !after.Erased && (!after.Deleted || t.l.keeps(after.Owner))
}

// followContent wants the result of an order copied if [transaction.wantsCopy]. If a call of ours has deleted the generation,
// it wants the copy deleted, unless the team keeps copies: another process may have made one.
func (t *transaction) followContent(before, after Order) error {
	switch {
	case after.isForwarded():
		return nil
	case after.Deleted && !before.Deleted && !t.l.keeps(after.Owner):
		return doomContents(t, after.Generation)
	case !t.wantsCopy(before, after):
		return nil
	}
	_, err := t.exec(`INSERT INTO contents (generation_id, owner, begin_time, next_time) VALUES ($1, $2, {now}, {now}) ON CONFLICT DO NOTHING`, after.Generation, after.Owner)
	t.contentWanted = true
	return err
}

// ContentWanted has a value after this process has recorded that a result is to be copied, or deleted.
func (l *Ledger) ContentWanted() <-chan struct{} { return l.wanted }

// Content gives the copy of a result, or the wish for one.
func (l *Ledger) Content(ctx context.Context, generation string) (c Content, found bool, err error) {
	all, err := ask(ctx, l, scanContent, selectContents+`generation_id = $1`, generation)
	if err != nil || len(all) == 0 {
		return c, false, err
	}
	return all[0], true, nil
}

// AwaitsEnd reports whether the ledger has an order of a generation, and not how that has ended.
func (l *Ledger) AwaitsEnd(ctx context.Context, generation string) (awaits bool, err error) {
	err = l.askOne(ctx, []any{&awaits}, `SELECT EXISTS (SELECT 1 FROM orders WHERE generation_id = $1 AND namespace <> api_key AND status < {failed})`, generation)
	return awaits, err
}

// TakeContent claims a result that is to be copied, for the owner whose turn is after that of the last one, and that has not
// enough already.
func (l *Ledger) TakeContent(ctx context.Context, last string, enough ...string) (c Content, found bool, err error) {
	return l.takeContent(ctx, []string{`owner > $1`, `owner <= $1`}, last, enough...)
}

// TakeContentOf claims the result of a generation, if it is to be copied now and nobody does.
func (l *Ledger) TakeContentOf(ctx context.Context, generation string) (c Content, found bool, err error) {
	return l.takeContent(ctx, []string{`generation_id = $1`}, generation)
}

func (l *Ledger) takeContent(ctx context.Context, turns []string, of string, enough ...string) (c Content, found bool, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		c, found, err = nextContent(tx, turns, of)
		for n := 0; n < len(enough) && found && slices.Contains(enough, c.Owner); n++ {
			c, found, err = nextContent(tx, turns, c.Owner)
		}
		if found = found && !slices.Contains(enough, c.Owner); err != nil || !found {
			return err
		}
		c.Claims++
		_, err = tx.exec(`UPDATE contents SET claims = $1, claimed_until = {now} + $2 WHERE generation_id = $3`, c.Claims, ClaimTime.Microseconds(), c.Generation)
		return err
	})
	return c, found && err == nil, err
}

// nextContent gives the first result that is to be copied, by one turn after the other.
func nextContent(tx *transaction, turns []string, of string) (c Content, found bool, err error) {
	for _, turn := range turns {
		all, err := collect(tx, scanContent, selectContents+turn+` AND state = {waiting} AND `+isNext+` AND `+lapsed+` ORDER BY owner, next_time LIMIT 1 {take}`, of)
		if err != nil || len(all) > 0 {
			return append(all, c)[0], err == nil, err
		}
	}
	return c, false, nil
}

// HoldContent goes on with the claim of a result, and reports whether it is still this one's.
func (l *Ledger) HoldContent(ctx context.Context, c Content) (held bool, err error) {
	return l.concludeContent(ctx, c, false, `claimed_until = {now} + %s`, ClaimTime.Microseconds())
}

// ContentIsCopied records a copy, and reports whether it counts: the result may have been erased meanwhile, or another has
// copied it.
func (l *Ledger) ContentIsCopied(ctx context.Context, c Content, made StoredCopy) (counts bool, err error) {
	return l.concludeContent(ctx, c, true, `state = {copied}, claimed_until = 0, problem = '', object = %s, size_bytes = %s, sha256 = %s, blocks = %s, content_type = %s, etag = %s, copied_time = {now}`,
		made.Object, made.Size, made.SHA256, made.Blocks, made.ContentType, made.Etag)
}

// ContentNotCopied records why a result was not copied. After a pause it is tried again.
func (l *Ledger) ContentNotCopied(ctx context.Context, c Content, problem string, pause time.Duration) error {
	_, err := l.concludeContent(ctx, c, false, `claimed_until = 0, problem = %s, next_time = {now} + %s`, problem, pause.Microseconds())
	return err
}

// ContentFails records that a result can't be copied. A copy that was thought lost counts again.
func (l *Ledger) ContentFails(ctx context.Context, c Content, problem string) error {
	_, err := l.concludeContent(ctx, c, true, `state = CASE WHEN object <> '' THEN {copied} ELSE {not copied} END, claimed_until = 0, problem = %s`, problem)
	return err
}

// concludeContent changes the row of a claim, unless another has it, and reports whether it did. The end of the work makes
// the event of the success due.
func (l *Ledger) concludeContent(ctx context.Context, claim Content, ends bool, changes string, args ...any) (changed bool, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		c := &clauses{}
		c.add(changes, args...)
		set := c.take()
		c.add(`generation_id = %s AND claims = %s AND state = {waiting}`, claim.Generation, claim.Claims)
		rows, err := tx.exec(`UPDATE contents SET `+set+` WHERE `+c.String(), c.args...)
		if changed = rows == 1; err != nil || !changed || !ends {
			return err
		}
		return tx.deliverNow(claim.Owner, claim.Generation)
	})
	return changed && err == nil, err
}

// ContentIsLost records that a copy has not the bytes that were written, or is gone. It is made again, as the catalog has the bytes.
func (l *Ledger) ContentIsLost(ctx context.Context, c Content, problem string) error {
	return l.tx(ctx, func(tx *transaction) error {
		_, err := tx.exec(`UPDATE contents SET state = {waiting}, problem = $1, next_time = {now} WHERE generation_id = $2 AND object = $3 AND state = {copied}`, problem, c.Generation, c.Object)
		tx.contentWanted = true
		return err
	})
}

// DiscardContent has the copy deleted of a generation that an owner, or where that is nil anybody, wants deleted and the
// catalog has no more, unless the team of the copy keeps it, or may do so: see keeps.
func (l *Ledger) DiscardContent(ctx context.Context, owner *string, generation string) error {
	return l.tx(ctx, func(tx *transaction) error {
		owners, err := collect(tx, scanText, `SELECT owner FROM contents WHERE generation_id = $1`, generation)
		if err != nil || len(owners) == 0 || owner != nil && owners[0] != *owner || l.keeps(owners[0]) {
			return err
		}
		return doomContents(tx, generation)
	})
}

// FetchContent records that an operator wants a result copied again, and reports whether the ledger has one. A render that
// its owner has deleted has none.
func (l *Ledger) FetchContent(ctx context.Context, by By, generation string) (has bool, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		rows, err := tx.exec(`INSERT INTO contents (generation_id, owner, begin_time, next_time)
			SELECT generation_id, owner, {now}, {now} FROM orders WHERE generation_id = $1 AND namespace <> api_key AND status = {succeeded} AND erased = 0 AND (deleted = 0 OR gone = 1)
			ON CONFLICT (generation_id) DO UPDATE SET state = {waiting}, problem = '', begin_time = {now}, next_time = {now} WHERE contents.state <> {doomed}`, generation)
		if has = rows > 0; err != nil || !has {
			return err
		}
		tx.contentWanted = true
		return tx.audit(Act{By: by, Action: ActFetch, Subject: generation})
	})
	return has && err == nil, err
}

// doomContents has copies of results deleted.
func doomContents(tx *transaction, generations ...string) error {
	rows, err := tx.exec(`UPDATE contents SET state = {doomed}, next_time = {now}, content_type = '', etag = '', sha256 = '', blocks = '', problem = '' WHERE generation_id {in ids} AND state <> {doomed}`, asList(generations))
	tx.contentWanted = tx.contentWanted || rows > 0
	return err
}

// ownObject is the condition that a ledger may delete the object of a row. Objects from before the ledger was copied may be
// those of the other ledger, until an operator has adopted them.
const ownObject = `(object = '' OR EXISTS (SELECT 1 FROM facts WHERE name = '` + adoptedFact + `') OR object LIKE (SELECT value || '/%' FROM facts WHERE name = '` + storeFact + `'))`

// DoomedContents returns copies that are to be deleted now, those first that have waited longest. Each is returned again after
// a pause. A copy that a process is still making is left out.
func (l *Ledger) DoomedContents(ctx context.Context, most int) (all []Content, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		all, err = collect(tx, scanContent, selectContents+`state = {doomed} AND `+isNext+` AND `+lapsed+` AND `+ownObject+` ORDER BY next_time LIMIT $1 {take}`, most)
		if err != nil || len(all) == 0 {
			return err
		}
		ids := make([]string, len(all))
		for n, c := range all {
			ids[n] = c.Generation
		}
		_, err = tx.exec(`UPDATE contents SET next_time = {now} + $2 WHERE generation_id {in ids}`, asList(ids), ClaimTime.Microseconds())
		return err
	})
	return all, err
}

// ForgetContent forgets a copy that was deleted.
func (l *Ledger) ForgetContent(ctx context.Context, generation string) error {
	_, err := l.change(ctx, `DELETE FROM contents WHERE generation_id = $1 AND state = {doomed}`, generation)
	return err
}

// DoomedCount returns the number of copies that are to be deleted, and how many of them this ledger may delete.
func (l *Ledger) DoomedCount(ctx context.Context) (count, own int64, err error) {
	err = l.askOne(ctx, []any{&count, &own}, `SELECT COUNT(*), COUNT(CASE WHEN `+ownObject+` THEN 1 END) FROM contents WHERE state = {doomed}`)
	return count, own, err
}

// KnownObjects are those of some objects of a store that a row names.
func (l *Ledger) KnownObjects(ctx context.Context, objects []string) (known map[string]bool, err error) {
	if len(objects) == 0 {
		return nil, nil
	}
	found, err := ask(ctx, l, scanText, `SELECT object FROM contents WHERE object <> '' AND object {in ids}`, asList(objects))
	known = make(map[string]bool, len(found))
	for _, object := range found {
		known[object] = true
	}
	return known, err
}

// ContentsAfter gives copies by the order of their names, after one.
func (l *Ledger) ContentsAfter(ctx context.Context, generation string, most int) ([]Content, error) {
	return ask(ctx, l, scanContent, selectContents+`generation_id > $1 ORDER BY generation_id LIMIT $2`, generation, most)
}

// ContentSummary is what waits to be copied, and what could not be.
type ContentSummary struct {
	Waiting int64
	Failed  int64         // these are not tried again; at most maxFailed are counted
	Oldest  time.Duration // of those that wait
}

// maxFailed bounds the count of failed copies, whose number grows with the age of the ledger.
const maxFailed = 10_000

// failedCount counts the copies that failed, by their index.
var failedCount = fmt.Sprint(`SELECT COUNT(*) FROM (SELECT 1 FROM contents WHERE state = {not copied} LIMIT `, maxFailed, `) AS failed`)

func (l *Ledger) summarizeContents(tx *transaction, s *Summary, now time.Time) error {
	oldest := now
	err := tx.row([]any{&s.Contents.Waiting, moment{&oldest}, &s.Contents.Failed}, `SELECT COUNT(*), COALESCE(MIN(begin_time), $1), (`+failedCount+`) FROM contents WHERE state = {waiting}`, micros(now))
	s.Contents.Oldest = now.Sub(oldest)
	return err
}
