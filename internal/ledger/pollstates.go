package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/easel-grpc/easel/internal/ledger/shared"
)

// sharedPage is how many states one answer has, and how many rows are deleted at once.
const sharedPage = 500

// asRows is a parameter whose rows {rows} names.
func asRows[T any](all []T) string {
	text, _ := json.Marshal(all) // of strings and numbers
	return string(text)
}

// Write writes what polls have found, and tells other processes of changes. It gives their version; 0 where there are
// none.
func (p *Polls) Write(ctx context.Context, apiKey string, found shared.Found) (version int64, err error) {
	err = p.Ledger.inTransaction(ctx, func(tx *transaction) error {
		k, err := tx.lockKey(apiKey)
		if err != nil {
			return err
		}
		version = 0
		if len(found.Changes) > 0 || found.FullList != nil {
			k.Version++
			version = k.Version
		}
		if found.Swept {
			k.Seen = max(min(k.Seen, k.Now), k.Now-found.SweptAge)
		}
		if found.Pause > 0 {
			k.PausedUntil = max(k.PausedUntil, k.Now+found.Pause)
		}
		if found.FullList != nil {
			k.FullList = *found.FullList
		}
		_, err = tx.exec(`UPDATE shared_keys SET version = $1, seen_time = $2, paused_until = $3, full_list = $4 WHERE api_key = $5`, k.Version, k.Seen, k.PausedUntil, number(k.FullList), apiKey)
		return errors.Join(err, tx.writeStates(apiKey, version, found))
	})
	return version, err
}

// writeStates writes the states. One that was seen later than the change stays, unless that is in the future: the clock
// of the database was set back then. A record of the list is no answer to a read that is on its way, though it may come
// later than the claim: it was on its own way to the database.
func (t *transaction) writeStates(apiKey string, version int64, found shared.Found) (err error) {
	if len(found.Same) > 0 {
		_, err = t.exec(`UPDATE shared_states SET seen_time = {now} - r.age FROM {rows} WHERE shared_states.api_key = $1 AND shared_states.id = r.id
			AND (shared_states.seen_time < {now} - r.age OR shared_states.seen_time > {now})`, apiKey, asRows(found.Same))
	}
	if err == nil && len(found.Changes) > 0 {
		_, err = t.exec(`INSERT INTO shared_states (api_key, id, version, seen_time, etag, listed, record)
			SELECT $1, r.id, $3, {now} - r.age, COALESCE(r.etag, ''), r.listed, COALESCE(r.record, '') FROM {rows} WHERE TRUE
			ON CONFLICT (api_key, id) DO UPDATE SET version = excluded.version, listed = COALESCE(excluded.listed, shared_states.listed),
			seen_time = CASE WHEN excluded.listed = excluded.etag AND excluded.seen_time >= shared_states.claimed_time AND shared_states.claimed_time > shared_states.seen_time AND shared_states.claimed_time > {now} - $4
				THEN shared_states.claimed_time - 1 ELSE excluded.seen_time END,
			etag = COALESCE(NULLIF(excluded.etag, ''), shared_states.etag), record = COALESCE(NULLIF(excluded.record, ''), shared_states.record)
			WHERE excluded.seen_time >= shared_states.seen_time OR shared_states.seen_time > {now}`, apiKey, asRows(found.Changes), version, int64(shared.HoldMicros))
	}
	if err == nil && version > 0 && t.l.dialect.notify != "" {
		_, err = t.exec(t.l.dialect.notify, apiKey)
	}
	return err
}

// News reads what has changed after a cursor, and the states of some generations besides. The row of the API key is
// read first, so that it says nothing of changes that are not among the states.
func (p *Polls) News(ctx context.Context, apiKey string, after shared.Cursor, ids []string) (news shared.News, err error) {
	news = shared.News{Next: after}
	err = p.Ledger.reading(ctx, func(tx *transaction) error {
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
		return tx.states(&news, `id IN (SELECT r.id FROM {rows})`, apiKey, asRows(wanted))
	})
	return news, err
}

// page reads a page of the states after a cursor.
func (t *transaction) page(news *shared.News, apiKey string, after shared.Cursor) error {
	if err := t.states(news, `(version, id) > ($2, $3) ORDER BY version, id LIMIT $4`, apiKey, after.Version, after.ID, sharedPage); err != nil {
		return err
	}
	newest := shared.Cursor{Version: news.Key.Version}
	if last := len(news.States) - 1; last >= 0 {
		newest = shared.Cursor{Version: news.States[last].Version, ID: news.States[last].ID}
	}
	news.Next, news.More = newest, len(news.States) == sharedPage
	if !news.More {
		news.Next = shared.Cursor{Version: max(newest.Version, news.Key.Version) + 1}
	}
	return nil
}

// states reads the states of an API key that a condition names.
func (t *transaction) states(news *shared.News, condition string, args ...any) error {
	states, err := collect(t, func(rows *sql.Rows, s *shared.State) error {
		return rows.Scan(&s.ID, &s.Version, &s.Claimed, &s.Seen, &s.Etag, &s.Listed, &s.Record)
	}, `SELECT id, version, claimed_time, seen_time, etag, listed, record FROM shared_states WHERE api_key = $1 AND `+condition, args...)
	news.States = append(news.States, states...)
	return err
}
