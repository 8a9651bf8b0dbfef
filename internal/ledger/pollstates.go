package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/shared"
)

const (
	// sharedPage is how many states one answer has, and how many rows are deleted at once.
	sharedPage = 500
	// sharedBytes is after how many bytes of records an answer ends before that, and so do the changes of a transaction:
	// a record may have megabytes, and nobody waits for long for five hundred of them.
	sharedBytes = 4 << 20
)

// Write writes what polls have found, and tells other processes of changes: in pieces, so that nobody waits for long for
// the row of the API key. Where it fails, some of it may be written.
func (p *Polls) Write(ctx context.Context, apiKey string, found shared.Found) (written shared.Written, err error) {
	for _, piece := range pieces(found) {
		one, err := p.writePiece(ctx, apiKey, piece)
		if err != nil {
			return written, err
		}
		if written.Last == 0 || one.First > written.Last+1 { // else nobody has written in between
			written.First = one.First
		}
		written.Last = max(written.Last, one.Last)
		written.Unknown = append(written.Unknown, one.Unknown...)
	}
	return written, nil
}

// pieces divides findings. What is said of the whole list goes with the last piece, and a pause with the first.
func pieces(f shared.Found) (all []shared.Found) {
	for {
		changes, same := atOnce(f.Changes), min(len(f.Same), sharedPage)
		if changes == len(f.Changes) && same == len(f.Same) {
			return append(all, f)
		}
		all = append(all, shared.Found{Pause: f.Pause, Changes: f.Changes[:changes], Same: f.Same[:same]})
		f.Pause, f.Changes, f.Same = time.Time{}, f.Changes[changes:], f.Same[same:]
	}
}

// atOnce is how many of the changes go with one transaction.
func atOnce(changes []shared.Change) (n int) {
	for bytes := 0; n < min(len(changes), sharedPage) && bytes < sharedBytes; n++ {
		if record := changes[n].Record; record != nil {
			bytes += len(*record)
		}
	}
	return n
}

// foundRow is a row of what was found.
type foundRow struct {
	ID     string  `json:"id"`
	Age    int64   `json:"age"`
	Etag   *string `json:"etag"`
	Listed *string `json:"listed"`
	Record *string `json:"record"`
	Ended  int     `json:"ended"`
}

// foundRows are findings as parameters. Their ages are those at a time of this process.
type foundRows struct {
	at            time.Time
	changes, same string
}

func newFoundRows(f shared.Found) foundRows {
	at := time.Now()
	age := func(answered time.Time) int64 { return max(at.Sub(answered).Microseconds(), 0) }
	changes, same := make([]foundRow, len(f.Changes)), make([]foundRow, len(f.Same))
	for n, c := range f.Changes {
		changes[n] = foundRow{c.ID, age(c.At), c.Etag, c.Listed, c.Record, number(c.Ended)}
	}
	for n := range f.Same {
		same[n] = foundRow{ID: f.Same[n].ID, Age: age(f.Same[n].At), Etag: &f.Same[n].Etag}
	}
	return foundRows{at, asList(changes), asList(same)}
}

// writePiece writes findings in one transaction. It counts back from the time at which it has the row of the API key: to
// wait makes no answer newer.
func (p *Polls) writePiece(ctx context.Context, apiKey string, f shared.Found) (written shared.Written, err error) {
	rows := newFoundRows(f)
	err = p.Ledger.inTransaction(inTurn(ctx, forRead, apiKey), func(tx *transaction) error {
		k, err := tx.lockKey(apiKey)
		if err != nil {
			return err
		}
		written = shared.Written{}
		at := k.Now - time.Since(rows.at).Microseconds()
		if written.Unknown, err = k.confirm(tx, apiKey, f.Same, rows.same, at); err != nil {
			return err
		}
		if len(f.Changes) > 0 || f.FullList != nil {
			k.Version++
			written.First, written.Last = k.Version, k.Version
		}
		if err := k.change(tx, apiKey, len(f.Changes), rows.changes, at); err != nil {
			return err
		}
		pausedUntil := k.PausedUntil
		k.found(f)
		return k.writeFound(tx, apiKey, written.Last > 0 || k.PausedUntil > max(pausedUntil, k.Now))
	})
	return written, err
}

// confirm writes which records of the book are those that reads have found. It gives the generations of which the book
// has none, or another one that was current before.
func (k *sharedKey) confirm(tx *transaction, apiKey string, same []shared.Same, rows string, at int64) (unknown []string, err error) {
	if len(same) == 0 {
		return nil, nil
	}
	known, err := collect(tx, scanText, `UPDATE shared_states SET seen_time = CASE WHEN shared_states.seen_time > $4 THEN $4 WHEN shared_states.seen_time < $3 - r.age THEN $3 - r.age ELSE shared_states.seen_time END
		FROM {rows} WHERE shared_states.api_key = $1 AND shared_states.id = r.id AND shared_states.record <> '' AND (shared_states.etag = r.etag OR shared_states.seen_time >= $3 - r.age)
		RETURNING shared_states.id`, apiKey, rows, at, k.Now)
	slices.Sort(known)
	for _, s := range same {
		if _, ok := slices.BinarySearch(known, s.ID); !ok {
			unknown = append(unknown, s.ID)
		}
	}
	return unknown, err
}

// change writes changes. A state that was seen later than the change stays, unless that is in the future: the clock of
// the database was set back then. A record of the list is no answer to a read that is on its way, though it may come
// later than the claim: it was on its own way to the database. That the list does not carry a generation says nothing of
// its record.
func (k *sharedKey) change(tx *transaction, apiKey string, changes int, rows string, at int64) error {
	if changes == 0 {
		return nil
	}
	_, err := tx.exec(`INSERT INTO shared_states (api_key, id, version, seen_time, etag, listed, record, ended)
		SELECT $1, r.id, $3, $4 - r.age, COALESCE(r.etag, ''), r.listed, COALESCE(r.record, ''), r.ended FROM {rows} WHERE TRUE
		ON CONFLICT (api_key, id) DO UPDATE SET version = excluded.version, listed = COALESCE(excluded.listed, shared_states.listed),
		seen_time = CASE WHEN excluded.record = '' THEN shared_states.seen_time
			WHEN excluded.listed = excluded.etag AND excluded.seen_time >= shared_states.claimed_time AND shared_states.claimed_time > shared_states.seen_time AND shared_states.claimed_time > $6
			THEN shared_states.claimed_time - 1 ELSE excluded.seen_time END,
		etag = COALESCE(NULLIF(excluded.etag, ''), shared_states.etag), record = COALESCE(NULLIF(excluded.record, ''), shared_states.record),
		ended = CASE WHEN excluded.record = '' THEN shared_states.ended ELSE excluded.ended END
		WHERE excluded.seen_time >= shared_states.seen_time OR shared_states.seen_time > $5`, apiKey, rows, k.Version, at, k.Now, k.Now-shared.HoldMicros)
	return err
}

// found takes in what findings say of the API key. The first sweep under one is not claimed, and counts from its answer.
func (k *sharedKey) found(f shared.Found) {
	if !f.Swept.IsZero() {
		k.Seen = max(min(k.Seen, k.Now), k.Now-max(time.Since(f.Swept).Microseconds(), 0))
		k.Swept = cmp.Or(k.Swept, k.Seen)
	}
	if !f.Pause.IsZero() {
		k.PausedUntil = max(k.PausedUntil, k.Now+min(time.Until(f.Pause).Microseconds(), shared.PauseMicros))
	}
	if f.FullList != nil {
		k.FullList = *f.FullList
	}
}

// writeFound writes the row after findings, and notifies of changes and of a pause.
func (k *sharedKey) writeFound(tx *transaction, apiKey string, changed bool) error {
	_, err := tx.exec(`UPDATE shared_keys SET version = $1, swept_time = $2, seen_time = $3, paused_until = $4, full_list = $5 WHERE api_key = $6`, k.Version, k.Swept, k.Seen, k.PausedUntil, number(k.FullList), apiKey)
	if err == nil && changed && tx.l.dialect.notify != "" {
		_, err = tx.exec(tx.l.dialect.notify, apiKey)
	}
	return err
}

// News reads what has changed after a cursor, and the states of some generations besides. The row of the API key is
// read first, so that it says nothing of changes that are not among the states.
func (p *Polls) News(ctx context.Context, apiKey string, after shared.Cursor, ids []string) (news shared.News, err error) {
	err = p.Ledger.reading(inTurn(ctx, forRead, apiKey), func(tx *transaction) error {
		news = shared.News{Next: after}
		k, err := tx.readKey(apiKey, "")
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		news.Key = k.Key
		if k.Version >= after.Version {
			err = tx.page(&news, apiKey, after)
		}
		if err != nil || len(ids) == 0 {
			return err
		}
		wanted := make([]shared.Read, len(ids))
		for n, id := range ids {
			wanted[n].ID = id
		}
		return tx.states(&news, `shared_states WHERE api_key = $1 AND id IN (SELECT r.id FROM {rows})`, apiKey, asList(wanted))
	})
	return news, err
}

// statesAfter are those of a page: the last one is that with which there are enough bytes.
const statesAfter = `(SELECT *, SUM(OCTET_LENGTH(record)) OVER (ORDER BY version, id) - OCTET_LENGTH(record) AS bytes_before
	FROM (SELECT * FROM shared_states WHERE api_key = $1 AND (version, id) > ($2, $3) ORDER BY version, id LIMIT $4) AS newest) AS page
	WHERE bytes_before < $5 ORDER BY version, id`

// page reads a page of the states after a cursor.
func (t *transaction) page(news *shared.News, apiKey string, after shared.Cursor) error {
	if err := t.states(news, statesAfter, apiKey, after.Version, after.ID, sharedPage, sharedBytes); err != nil {
		return err
	}
	bytes := 0
	for i := range news.States {
		bytes += len(news.States[i].Record)
	}
	newest := shared.Cursor{Version: news.Key.Version}
	if last := len(news.States) - 1; last >= 0 {
		newest = shared.Cursor{Version: news.States[last].Version, ID: news.States[last].ID}
	}
	news.Next, news.More = newest, len(news.States) == sharedPage || bytes >= sharedBytes
	if !news.More {
		news.Next = shared.Cursor{Version: max(newest.Version, news.Key.Version) + 1}
	}
	return nil
}

// states reads some states of an API key.
func (t *transaction) states(news *shared.News, from string, args ...any) error {
	states, err := collect(t, func(row scanner, s *shared.State) error {
		return row.Scan(&s.ID, &s.Version, &s.Claimed, &s.Seen, &s.Etag, &s.Listed, &s.Record)
	}, `SELECT id, version, claimed_time, seen_time, etag, listed, record FROM `+from, args...)
	news.States = append(news.States, states...)
	return err
}
