package events

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	feedInterval = 500 * time.Millisecond // interval between two reads of new events
	feedPage     = 100                    // maximum number of events in one read
	feedBuffer   = 100                    // maximum number of new events that are buffered for a reader; if there are more, the reader must query the ledger
)

// Feed passes new events from the ledger to its readers, including events that other processes wrote. A single query
// serves all readers that have received every earlier event. A reader that has fallen behind queries the ledger itself.
type Feed struct {
	ledger *ledger.Ledger
	logger *slog.Logger

	mu       sync.Mutex
	readers  map[*FeedReader]struct{}
	follows  bool  // whether position is valid
	position int64 // position of the last event that was passed to the readers
	failing  bool  // whether the last read of new events failed
}

// NewFeed returns a feed. The feed passes no events to its readers until [Feed.Run] is called.
func NewFeed(led *ledger.Ledger, logger *slog.Logger) *Feed {
	return &Feed{ledger: led, logger: logger, readers: map[*FeedReader]struct{}{}}
}

// Run passes new events to the readers until ctx is done. While there are no readers, it does not query the ledger.
func (f *Feed) Run(ctx context.Context) {
	ticks := time.NewTicker(feedInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		for more := f.hasReaders(); more; {
			more = f.readEvents(ctx)
		}
	}
}

func (f *Feed) hasReaders() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.follows = f.follows && len(f.readers) > 0
	return len(f.readers) > 0
}

// readEvents passes the next events to the readers, and reports whether the ledger may have more events. If f.position is not
// valid, it passes no events. Instead, it sets f.position to the position of the ledger's last event, and calls fallBehind for
// each reader, because the readers may have missed events.
func (f *Feed) readEvents(ctx context.Context) (more bool) {
	last, err := f.ledger.NumberEvents(ctx)
	var next []ledger.FeedEvent
	if err == nil && f.follows && last > f.position {
		next, err = f.ledger.Feed(ctx, nil, f.position, feedPage)
	}
	f.recordRead(ctx, err)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.follows {
		f.follows, f.position = true, last
		for r := range f.readers {
			r.fallBehind()
		}
	}
	for _, e := range next {
		f.position = e.Position
		for r := range f.readers {
			r.addEvent(e)
		}
	}
	return len(next) == feedPage
}

// recordRead records whether a read of new events failed. It logs the failure, unless the previous read also failed or ctx is
// done.
func (f *Feed) recordRead(ctx context.Context, err error) {
	if failed := err != nil; failed != f.failing {
		if f.failing = failed; failed && ctx.Err() == nil {
			f.logger.WarnContext(ctx, "event feed unavailable; retrying", "error", err)
		}
	}
}

// FeedReader reads the events of one owner, or of all owners. Only one goroutine may use it.
type FeedReader struct {
	feed  *Feed
	owner *string // owner of the events; nil means all owners

	// Ready receives a value when [FeedReader.Next] may have events to return. Its capacity is 1.
	Ready chan struct{}

	waiting []ledger.FeedEvent
	behind  bool // whether some of the next events are missing from the field waiting, so that the reader must query the ledger
}

// Reader returns a reader of an owner's events, or of all events if owner is nil. The caller must close it.
func (f *Feed) Reader(owner *string) *FeedReader {
	r := &FeedReader{feed: f, owner: owner, Ready: make(chan struct{}, 1), behind: true}
	r.Ready <- struct{}{}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers[r] = struct{}{}
	return r
}

// Close removes the reader from the feed.
func (r *FeedReader) Close() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	delete(r.feed.readers, r)
}

// Next returns events after the given position, in order. It does not wait for new events. The first call may use any
// position. Each later call must use the position of the last event that Next returned. If isCurrent is false, the
// ledger may have more events after the returned ones.
func (r *FeedReader) Next(ctx context.Context, position int64) (next []ledger.FeedEvent, isCurrent bool, err error) {
	r.feed.mu.Lock()
	behind := r.behind
	next, r.waiting, r.behind = r.waiting, nil, false
	r.feed.mu.Unlock()
	if !behind {
		return next, true, nil
	}
	next, err = r.feed.ledger.Feed(ctx, r.owner, position, feedPage) // the result includes the events in r.waiting, because the ledger has all events
	if isCurrent = err == nil && len(next) < feedPage; !isCurrent {
		r.feed.mu.Lock()
		defer r.feed.mu.Unlock()
		r.fallBehind()
	}
	return next, isCurrent, err
}

// fallBehind discards the waiting events, so that the next call to [FeedReader.Next] queries the ledger instead. The
// caller must hold the feed's mutex.
func (r *FeedReader) fallBehind() {
	r.behind, r.waiting = true, nil
	r.sendReady()
}

// addEvent appends an event to the reader's waiting events, unless the event belongs to an owner that the reader does not
// read. If the buffer is full, the reader falls behind. The caller must hold the feed's mutex.
func (r *FeedReader) addEvent(e ledger.FeedEvent) {
	switch {
	case r.owner != nil && *r.owner != e.Owner, r.behind:
	case len(r.waiting) == feedBuffer:
		r.fallBehind()
	default:
		r.waiting = append(r.waiting, e)
		r.sendReady()
	}
}

func (r *FeedReader) sendReady() {
	select {
	case r.Ready <- struct{}{}:
	default:
	}
}
