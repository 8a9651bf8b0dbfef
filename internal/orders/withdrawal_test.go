package orders_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/proctest"
)

// queue is a catalog that responds to the first request with 429. It never responds to later requests, which wait until the
// client cancels them.
type queue struct {
	asked atomic.Int64
	posts atomic.Int64  // number of requests that place an order
	held  chan struct{} // receives a value for each request that gets no response
}

func (q *queue) RoundTrip(r *http.Request) (*http.Response, error) {
	if isOrder(r) {
		q.posts.Add(1)
	}
	if q.asked.Add(1) == 1 {
		return reply(r, http.StatusTooManyRequests, nil, ""), nil
	}
	q.held <- struct{}{}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// openQueue returns a client and its catalog, a [queue]. The catalog has rejected one request with status 429, and
// the pause that followed is over. The client has then sent a request for a quote, which gets no response. Until resume
// cancels this request, the client's other requests wait.
func openQueue(t *testing.T, change ...func(*ledger.Config)) (c *client, q *queue, resume func()) {
	t.Helper()
	q = &queue{held: make(chan struct{}, 8)}
	c = newClient(t, catalog.Config{BaseURL: testURL, Transport: q}, change...)
	pausing, stop := context.WithCancel(t.Context())
	var quotes sync.WaitGroup
	quotes.Go(func() {
		for pausing.Err() == nil {
			_, _ = c.Catalog.Quote(pausing, testCredential, "a/b", []byte(`{}`))
		}
	})
	<-q.held
	return c, q, func() {
		stop()
		quotes.Wait()
	}
}

// lockOrders locks the orders in a ledger until unlock is called.
func lockOrders(t *testing.T, url string) (unlock func()) {
	t.Helper()
	driver, source, lock := "pgx", url, "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE"
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, source, lock = "sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)", "UPDATE orders SET leases = leases WHERE id = ''"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), lock)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// The catalog has requested a pause, and the caller's deadline approaches while the order is waiting. Before Easel returns
// an error with the outcome NotPlaced, it withdraws the order in the ledger. If the ledger is unavailable, the outcome in
// the error is Unknown, and the next process resends the order.
func TestOrderIsWithdrawnBeforeFailureIsReported(t *testing.T) {
	for name, url := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") },
		"PostgreSQL": func(t *testing.T) string { return proctest.Database(t) },
	} {
		for ledgerName, away := range map[string]bool{"ledger available": false, "ledger unavailable": true} {
			t.Run(name+", "+ledgerName, func(t *testing.T) {
				t.Parallel()
				withdraw(t, url(t), away)
			})
		}
	}
}

func withdraw(t *testing.T, url string, away bool) {
	t.Helper()
	c, _, resume := openQueue(t, func(cfg *ledger.Config) { cfg.URL = url })
	unlock := func() {}
	// place places an order and waits for the error that the caller receives just before its deadline. It returns the
	// outcome in this error.
	place := func(key string) (outcome orders.Outcome) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		placed := make(chan error, 1)
		go func() {
			_, err := c.Place(ctx, testCredential, orders.Request{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: key, UpstreamKey: key})
			placed <- err
		}()
		if away {
			for ctx.Err() == nil { // waits until the order is in the ledger
				if written, err := c.ledger.List(ctx, ledger.Filter{Unresolved: true}, ledger.Position{}, 1); err == nil && len(written) == 1 {
					break
				}
			}
			unlock = lockOrders(t, url)
		}
		err := <-placed
		told, ok := errors.AsType[*orders.Error](err)
		if !ok || ctx.Err() != nil {
			t.Fatalf("the caller receives %v, %v", err, ctx.Err())
		}
		return told.Outcome
	}
	key, want, outcome := "", orders.NotPlaced, orders.Unknown
	if away {
		want = orders.Unknown
	}
	// On a busy machine, the withdrawal is sometimes not committed before the deadline. In this case, the outcome is
	// unknown, and the test places another order, up to five in total.
	for n := 0; n == 0 || n < 5 && outcome != want; n++ {
		key = fmt.Sprint("waits-", n)
		outcome = place(key)
	}
	if outcome != want {
		t.Errorf("got the outcome %s, want %s", outcome, want)
	}
	dead, die := context.WithCancel(t.Context()) // simulates the death of the process: outcomes that are not recorded yet are lost
	die()
	_ = c.Close(dead)
	resume()
	_ = c.Close(t.Context())
	_ = c.ledger.Close()
	unlock()
	proctest.Exec(t, url, `UPDATE orders SET leased_until = 0, retry_time = 0`) // all leases expire
	if resent := slices.Contains(resumedKeys(t, url), key); resent != away {
		t.Errorf("the next process resends the order: %v, want %v", resent, away)
	}
}

// resumedKeys returns the idempotency keys of the orders that a new process would resend.
func resumedKeys(t *testing.T, url string) (keys []string) {
	t.Helper()
	next, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: testURL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	for {
		o, found, err := next.Resume(t.Context(), testCredential.Pinned().APIKeySum(), "")
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			return keys
		}
		keys = append(keys, o.IdempotencyKey)
	}
}

// onLost is a log handler that calls a function when a lease is lost.
type onLost struct {
	slog.Handler
	call func()
}

func (h onLost) Enabled(context.Context, slog.Level) bool { return true }

func (h onLost) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "granted" && !a.Value.Bool() {
			h.call()
		}
		return true
	})
	return nil
}

// An order is written and waits for the catalog. Then another process acquires its lease, and the ledger becomes
// unavailable.
func TestOutcomeIsUnknownIfLeaseIsLostAndLedgerIsDown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	synctest.Test(t, func(t *testing.T) {
		upstream := &busyCatalog{refusal: step{status: 429}, retryAfter: "30", until: time.Now().Add(30 * time.Second)}
		c := newClient(t, catalog.Config{BaseURL: testURL, Transport: upstream}, func(cfg *ledger.Config) { cfg.URL = "sqlite:" + file })
		c.Logger = slog.New(onLost{slog.DiscardHandler, func() { _ = c.ledger.Close() }})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		go func() {
			time.Sleep(5 * time.Second)
			proctest.Exec(t, "sqlite:"+file, `UPDATE orders SET leases = leases + 1`) // simulates another process that has acquired the lease
		}()
		_, err := c.Create(ctx, testCredential, plainOrder)
		if outcomeOf(err) != orders.Unknown {
			t.Errorf("the caller receives %v", err)
		}
	})
}
