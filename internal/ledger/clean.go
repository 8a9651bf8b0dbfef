package ledger

import (
	"context"
	"errors"
	"time"
)

// Whoever reads a file of SQLite keeps its log from being emptied. It is tried so often, for so long, and others write
// in between.
const (
	cleanAttempts = 20
	cleanPause    = 100 * time.Millisecond
	cleanWait     = "PRAGMA busy_timeout = 50"
	usualWait     = "PRAGMA busy_timeout = 5000" // see sqliteOptions
)

// ErrStillRead means that orders are erased, and that the log of the file could not be emptied of them.
var ErrStillRead = errors.New("others read the ledger, and keep what was erased in the log of its file: ask once more")

// clean empties the log of a file of SQLite, which may have erased bytes.
func (l *Ledger) clean(ctx context.Context) error {
	if l.lock == nil {
		return nil
	}
	for range cleanAttempts {
		if empty, err := l.empty(ctx); err != nil || empty {
			return l.classified(ctx, err)
		}
		select {
		case <-time.After(cleanPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ErrStillRead
}

// empty tries to empty the log of a file of SQLite, in a turn of its own. A connection that reads moves most of the log to the
// file before that, and blocks no writer: only the rest is moved in the turn.
func (l *Ledger) empty(ctx context.Context) (empty bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	if _, err := l.reads.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
		return false, err
	}
	conn, err := l.writes.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool
	if _, err := conn.ExecContext(ctx, cleanWait); err != nil {
		return false, err
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), usualWait) }() // a connection that fails so is of no use at all
	busy, pages, moved := 0, 0, 0
	err = conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &moved)
	return busy == 0, err
}
