//go:build unix

package torture

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// bell measures how long a change and its notification take between two connections of a database with
// nothing of ours between them. It is the yardstick of what replicas over that database can do on a machine
// that has other work.
type bell struct {
	mu    sync.Mutex
	delay []time.Duration
}

// startBell rings until the test ends.
func startBell(t *testing.T, url string) (b *bell) {
	t.Helper()
	from, to := connection(t, url), connection(t, url)
	for _, statement := range []string{"CREATE TABLE bell (rung int)", "INSERT INTO bell VALUES (0)"} {
		if _, err := from.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := to.Exec(t.Context(), "LISTEN bell"); err != nil {
		t.Fatal(err)
	}
	b = &bell{}
	ctx, cancel := context.WithCancel(t.Context())
	var ringing sync.WaitGroup
	ringing.Go(func() {
		for b.ring(ctx, from, to) == nil {
			pauseFor(ctx, 20*time.Millisecond)
		}
	})
	t.Cleanup(ringing.Wait)
	t.Cleanup(cancel)
	return b
}

func connection(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// ring writes on one connection and waits until the other has read it.
func (b *bell) ring(ctx context.Context, from, to *pgx.Conn) error {
	began := time.Now()
	batch := &pgx.Batch{}
	batch.Queue("UPDATE bell SET rung = rung + 1")
	batch.Queue("NOTIFY bell")
	if err := from.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if _, err := to.WaitForNotification(ctx); err != nil {
		return err
	}
	var rung int
	if err := to.QueryRow(ctx, "SELECT rung FROM bell").Scan(&rung); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delay = append(b.delay, time.Since(began))
	return nil
}

// delays are the average one and that of one in a hundred. Other work comes in bursts, of which a median says nothing.
func (b *bell) delays() (average, p99 time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.delay) == 0 {
		return 0, 0
	}
	slices.Sort(b.delay)
	for _, d := range b.delay {
		average += d / time.Duration(len(b.delay))
	}
	return average, b.delay[len(b.delay)*99/100]
}
