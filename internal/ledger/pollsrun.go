package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	sharedChannel = "easel_polls"    // of notifications
	sharedKept    = time.Hour        // how long a row is kept that nobody has polled or changed
	forgetEvery   = time.Minute      // between two looks for rows to delete
	listenLeast   = time.Second      // before a failed connection for notifications is made anew; doubles
	listenMost    = 30 * time.Second // at most
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

// hearAll listens until ctx ends, and tells once that it can't.
func (p *Polls) hearAll(ctx context.Context) {
	for pause, failing := listenLeast, false; ctx.Err() == nil; pause = min(2*pause, listenMost) {
		err := p.Listen(ctx, func(apiKey string) {
			if failing {
				p.Logger.Info("the ledger notifies again of what other replicas have polled")
			}
			pause, failing = listenLeast, false
			p.Wake(apiKey)
		})
		if !failing && ctx.Err() == nil {
			p.Logger.Warn("the ledger does not notify of what other replicas have polled: it is read before the next poll", "error", err)
			failing = true
		}
		wait(ctx, pause)
	}
}

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
	heard("") // what came before the connection was missed
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return unusable(err)
		}
		heard(n.Payload)
	}
}

// Changed gives a channel that has a value after a change under an API key, until stop is called.
func (p *Polls) Changed(apiKey string) (changed <-chan struct{}, stop func()) {
	one := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners[apiKey] = append(p.listeners[apiKey], one)
	return one, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.listeners[apiKey] = slices.DeleteFunc(p.listeners[apiKey], func(other chan struct{}) bool { return other == one })
		if len(p.listeners[apiKey]) == 0 {
			delete(p.listeners, apiKey)
		}
	}
}

// Wake tells those who listen to an API key, or to any where it is "".
func (p *Polls) Wake(apiKey string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.listeners[apiKey]
	if apiKey == "" {
		all = slices.Concat(slices.Collect(maps.Values(p.listeners))...)
	}
	for _, one := range all {
		select {
		case one <- struct{}{}:
		default:
		}
	}
}

// Forget deletes rows that nobody has polled or changed for an hour, a piece at a time.
func (p *Polls) Forget(ctx context.Context) error {
	for _, statement := range []string{
		`DELETE FROM shared_states WHERE (api_key, id) IN (SELECT api_key, id FROM shared_states WHERE seen_time < {now} - $1 AND claimed_time < {now} - $2 LIMIT $3 {take})`,
		`DELETE FROM shared_keys WHERE api_key IN (SELECT api_key FROM shared_keys WHERE filled_time < {now} - $1 AND seen_time < {now} - $2 LIMIT $3 {take})`,
	} {
		for gone := int64(sharedPage); gone == sharedPage; {
			err := p.Ledger.inTransaction(ctx, func(tx *transaction) (err error) {
				gone, err = tx.exec(statement, sharedKept.Microseconds(), sharedKept.Microseconds(), sharedPage)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
