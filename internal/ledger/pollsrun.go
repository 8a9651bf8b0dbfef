package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	sharedChannel = "easel_polls"   // of notifications
	sharedKept    = time.Hour       // how long a row is kept that nobody has polled or changed
	forgetEvery   = time.Minute     // between two looks for rows to delete
	listenLeast   = time.Second     // before a failed connection for notifications is made anew; doubles
	listenMost    = 5 * time.Second // at most
	heardWithin   = 5 * time.Second // a notification comes that was sent to find out
)

// Run hears of changes, and deletes what is old, until ctx ends. A failure of either costs a delay, and no poll.
func (p *Polls) Run(ctx context.Context) {
	if p.Listen != nil {
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			p.hearAll(ctx)
		}()
	}
	for wait(ctx, forgetEvery) {
		_ = p.Forget(ctx) // the next minute tries again
	}
}

// hearAll listens until ctx ends. It logs once that an available database does not notify: a connection that breaks, or
// can't be made, is an outage.
func (p *Polls) hearAll(ctx context.Context) {
	for pause, logged := listenLeast, false; ctx.Err() == nil; pause = min(2*pause, listenMost) {
		err := p.Listen(ctx, func(apiKey string) {
			pause = listenLeast
			p.Wake(apiKey)
		})
		if errors.Is(err, errNoNotifications) && !logged && ctx.Err() == nil {
			p.Logger.Warn("ledger notifications unavailable", "error", err, "effect", "other replicas' polls are read before the next poll")
			logged = true
		}
		wait(ctx, pause)
	}
}

// errNoNotifications means that a notification was sent and not received.
var errNoNotifications = errors.New("no notification came: a pooler in transaction mode carries none")

// wait waits, and reports whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// listen is the Listen of PostgreSQL, on a connection of its own.
func (l *Ledger) listen(ctx context.Context, heard func(apiKey string)) error {
	conn, err := pgx.Connect(ctx, l.address)
	if err != nil {
		return unusable(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+sharedChannel); err != nil {
		return unusable(err)
	}
	if err := l.hearOneself(ctx, conn); err != nil {
		_, _ = conn.Exec(ctx, "UNLISTEN *") // the session behind a pooler goes on
		return err
	}
	heard("") // what came before was missed
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return unusable(err)
		}
		heard(n.Payload)
	}
}

// hearOneself sends a notification, and waits for it. A pooler that hands its connections to other sessions takes LISTEN,
// and carries none: it is sent over another connection, as a notification comes back over the same one.
func (l *Ledger) hearOneself(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, heardWithin)
	defer cancel()
	own := "listening " + rand.Text()
	if _, err := l.writes.ExecContext(ctx, l.dialect.notify, own); err != nil {
		return unusable(err)
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			if pgconn.Timeout(err) {
				err = errNoNotifications
			}
			return unusable(err)
		}
		if n.Payload == own {
			return nil
		}
	}
}

// Changed gives a channel that has a value after a change under an API key, until stop is called.
func (p *Polls) Changed(apiKey string) (changed <-chan struct{}, stop func()) {
	return p.listeners.Subscribe(apiKey)
}

// Wake tells those who listen to an API key, or to any where it is "".
func (p *Polls) Wake(apiKey string) {
	if apiKey == "" {
		p.listeners.NotifyAll()
		return
	}
	p.listeners.Notify(apiKey)
}

// The statements of [Polls.Forget]. An index has the states that the first one looks for; reports are few.
const (
	forgetStates = `DELETE FROM shared_states WHERE (api_key, id) IN (SELECT api_key, id FROM shared_states
		WHERE seen_time < $1 AND claimed_time < $1 AND (ended = 1 OR COALESCE(listed, '') = '') LIMIT $2 {take})`
	forgetReports = `DELETE FROM shared_reports WHERE told_time < $1`
	forgetKeys    = `DELETE FROM shared_keys WHERE api_key IN (SELECT api_key FROM shared_keys WHERE filled_time < $1 AND seen_time < $1 LIMIT 1 {take}) RETURNING api_key`
)

// Forget deletes what nobody has polled or changed for an hour, a piece at a time: states that have ended or that the list
// does not carry, API keys with all their states, and reports.
func (p *Polls) Forget(ctx context.Context) error {
	return errors.Join(p.forget(ctx, sharedPage, func(tx *transaction, before int64) (int64, error) {
		return tx.exec(forgetStates, before, sharedPage)
	}), p.forget(ctx, 1, forgetKey), p.forget(ctx, math.MaxInt64, func(tx *transaction, before int64) (int64, error) {
		return tx.exec(forgetReports, before)
	}))
}

// forget deletes until there are fewer than so many at once.
func (p *Polls) forget(ctx context.Context, most int64, some func(tx *transaction, before int64) (gone int64, err error)) (err error) {
	for gone := most; gone == most && err == nil; {
		err = p.Ledger.inTransaction(ctx, func(tx *transaction) error {
			now, err := tx.now()
			if err == nil {
				gone, err = some(tx, micros(now.Add(-sharedKept)))
			}
			return err
		})
	}
	return err
}

// forgetKey deletes an API key with its states.
func forgetKey(tx *transaction, before int64) (gone int64, err error) {
	apiKeys, err := collect(tx, scanText, forgetKeys, before)
	for _, apiKey := range apiKeys {
		if err == nil {
			_, err = tx.exec(`DELETE FROM shared_states WHERE api_key = $1`, apiKey)
		}
	}
	return int64(len(apiKeys)), err
}
