package events_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// counted is a connector to a SQLite file that counts statements.
type counted struct {
	sqlite     driver.Driver
	dsn        string
	statements atomic.Int64
}

// Connect implements [driver.Connector].
func (c *counted) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.sqlite.Open(c.dsn)
	return countedConn{conn, c}, err
}

// Driver implements [driver.Connector].
func (c *counted) Driver() driver.Driver { return c.sqlite }

type countedConn struct {
	driver.Conn
	of *counted
}

// BeginTx implements [driver.ConnBeginTx].
func (c countedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
}

// Prepare implements [driver.Conn]. Each statement is prepared, because the connection has no methods that execute
// statements directly.
func (c countedConn) Prepare(query string) (driver.Stmt, error) {
	c.of.statements.Add(1)
	return c.Conn.Prepare(query)
}

// countedLedger opens the office's ledger a second time, as another process does. It counts the second process's
// statements.
func (o *office) countedLedger() (*ledger.Ledger, *counted) {
	o.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		o.Fatal(err)
	}
	defer db.Close()
	c := &counted{sqlite: db.Driver(), dsn: "file:" + strings.TrimPrefix(o.url, "sqlite:") + "?_txlock=immediate&_pragma=busy_timeout(5000)"}
	book, err := ledger.Open(o.Context(), ledger.Config{URL: o.url, Connector: c, Catalog: "https://catalog.example", ResendWindow: time.Hour})
	if err != nil {
		o.Fatal(err)
	}
	return book, c
}

func TestOpenFeedsCostNoQueryEach(t *testing.T) {
	const readers, written = 10_000, 10
	inOffice(t, func(o *office) {
		book, counted := o.countedLedger()
		defer book.Close()
		feed := events.NewFeed(book, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(o.Context())
		stopped := make(chan struct{})
		go func() { defer close(stopped); feed.Run(ctx) }()
		defer func() { stop(); <-stopped }()
		owners := []string{"studio", "print"}
		all := make([]*events.FeedReader, readers)
		for n := range all {
			all[n] = feed.Reader(&owners[n%2])
			defer all[n].Close()
			if n == 0 {
				time.Sleep(time.Second) // waits until the first reader has started the feed
			}
			if _, isCurrent, err := all[n].Next(ctx, 0); err != nil || !isCurrent {
				o.Fatal(isCurrent, err)
			}
		}
		before := counted.statements.Load()
		for n := range written {
			o.order("studio", fmt.Sprint("g", n), lifecycle.Failed)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for n, r := range all {
			got, isCurrent, err := r.Next(ctx, 0)
			if want := written * (1 - n%2); err != nil || !isCurrent || len(got) != want {
				o.Fatalf("reader %d got %d events, want %d: %v", n, len(got), want, err)
			}
		}
		if statements := counted.statements.Load() - before; statements > 200 {
			o.Errorf("%d readers cost %d statements in 10 s", readers, statements)
		}
	})
}

// In virtual time, a query takes no time. So this test covers the intervals, but not the speed of a database.
func TestAnEventReachesTheFeedOfAnotherProcess(t *testing.T) {
	inOffice(t, func(o *office) {
		book, _ := o.countedLedger()
		defer book.Close()
		feed := events.NewFeed(book, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(o.Context())
		stopped := make(chan struct{})
		go func() { defer close(stopped); feed.Run(ctx) }()
		defer func() { stop(); <-stopped }()
		reader := feed.Reader(nil)
		defer reader.Close()
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test repeats its choices
		var position int64
		for n := range 200 {
			time.Sleep(time.Duration(random.IntN(1700)) * time.Millisecond)
			written := time.Now()
			o.order("studio", fmt.Sprint("g", n), lifecycle.Failed)
			var next []ledger.FeedEvent
			for len(next) == 0 {
				<-reader.Ready
				var err error
				if next, _, err = reader.Next(ctx, position); err != nil {
					o.Fatal(err)
				}
			}
			position = next[0].Position
			if delay := time.Since(written); len(next) != 1 || delay > time.Second {
				o.Fatalf("event %d: %d events after %v", n, len(next), delay)
			}
		}
	})
}
