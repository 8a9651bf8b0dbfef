package events_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// otherFeed opens the ledger a second time, as another process would, and runs a feed on it until the test ends. It
// also returns a counter of the SQL statements that this second ledger executes.
func (o *office) otherFeed() (*events.Feed, *atomic.Int64) {
	o.Helper()
	connector, statements := proctest.NewConnector(o, o.url), new(atomic.Int64)
	connector.Prepare = func() { statements.Add(1) }
	book, err := ledger.Open(o.Context(), ledger.Config{URL: o.url, Connector: connector, Catalog: "https://catalog.example", ResendWindow: time.Hour})
	if err != nil {
		o.Fatal(err)
	}
	feed := events.NewFeed(book, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(o.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); feed.Run(ctx) }()
	o.Cleanup(func() {
		stop()
		<-stopped
		_ = book.Close()
	})
	return feed, statements
}

func TestEventFeedReadersShareLedgerQueries(t *testing.T) {
	const readers, written = 10_000, 10
	inOffice(t, func(o *office) {
		feed, statements := o.otherFeed()
		owners := []string{"studio", "print"}
		all := make([]*events.FeedReader, readers)
		for n := range all {
			all[n] = feed.Reader(&owners[n%2])
			defer all[n].Close()
			if n == 0 {
				time.Sleep(time.Second) // waits until the first reader has started the feed
			}
			if _, isCurrent, err := all[n].Next(o.Context(), 0); err != nil || !isCurrent {
				o.Fatal(isCurrent, err)
			}
		}
		before := statements.Load()
		for n := range written {
			o.placeOrder("studio", fmt.Sprint("g", n), lifecycle.Failed)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for n, r := range all {
			got, isCurrent, err := r.Next(o.Context(), 0)
			if want := written * (1 - n%2); err != nil || !isCurrent || len(got) != want {
				o.Fatalf("reader %d got %d events, want %d: %v", n, len(got), want, err)
			}
		}
		if n := statements.Load() - before; n > 200 {
			o.Errorf("%d readers cost %d statements in 10 s", readers, n)
		}
	})
}

// In virtual time, a query takes no time. This test therefore covers the intervals between queries, but not the speed
// of a database.
func TestAnEventReachesTheFeedOfAnotherProcess(t *testing.T) {
	inOffice(t, func(o *office) {
		feed, _ := o.otherFeed()
		reader := feed.Reader(nil)
		defer reader.Close()
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fixed seed, so that each run makes the same choices
		var position int64
		for n := range 200 {
			time.Sleep(time.Duration(random.IntN(1700)) * time.Millisecond)
			written := time.Now()
			o.placeOrder("studio", fmt.Sprint("g", n), lifecycle.Failed)
			var next []ledger.FeedEvent
			for len(next) == 0 {
				<-reader.Ready
				var err error
				if next, _, err = reader.Next(o.Context(), position); err != nil {
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
