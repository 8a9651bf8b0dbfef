package watch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/watch"
)

// slowReads is the way of a replica to the book, over which it takes long to read.
type slowReads struct {
	*way
	reads, most, now atomic.Int64
}

func (b *slowReads) News(ctx context.Context, apiKey string, after shared.Cursor, ids []string) (shared.News, error) {
	b.reads.Add(1)
	b.most.Store(max(b.most.Load(), b.now.Add(1)))
	defer b.now.Add(-1)
	if err := pause(ctx, 100*time.Millisecond); err != nil {
		return shared.News{}, err
	}
	return b.way.News(ctx, apiKey, after, ids)
}

func TestTheBookIsReadByOneAtATime(t *testing.T) {
	inGroup(t, 1, map[string]catalog.State{"a": queued, "b": queued}, func(g *group) {
		book := &slowReads{way: g.replicas[0]}
		hub, err := watch.New(watch.Config{Upstream: book, Seed: 7, Book: book})
		if err != nil {
			t.Fatal(err)
		}
		defer hub.Close()
		s := (&bench{g.t, g.up, hub, g.ctx}).watch("a", "b")
		pass(9 * time.Second)
		before := book.reads.Load()
		for range 100 {
			book.Wake("")
			pass(2 * time.Millisecond)
		}
		pass(300 * time.Millisecond)
		if n := book.reads.Load() - before; n < 2 || n > 4 {
			t.Errorf("of 100 notifications in 200 ms come %d reads of 100 ms", n)
		}
		if n := book.most.Load(); n != 1 {
			t.Errorf("%d read at once", n)
		}
		for _, id := range []string{"a", "b"} {
			g.up.set(id, succeeded)
		}
		pass(30 * time.Second)
		if got := s.look(); !got.ended || got.err != nil {
			t.Errorf("the watch is told %v", s.states())
		}
	})
}
