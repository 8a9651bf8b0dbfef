// Package content keeps results that outlive the catalog: each is copied once into a store, and read from there.
//
//	content  a reader's way to a result: from its copy, else from the catalog
//	copy     how a result gets into the store, by claims of the ledger
//	source   the result in the catalog, as it is copied, and responses that are not the result
//	original  the same result in the catalog
//	reader   the bytes of a copy, each block checked; the catalog has the rest where the store fails
//	tidy     deletion of copies that the ledger has marked deleted
//	verify   what the book and the store differ in
//	store, dir, s3  where copies are
package content

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
)

// Config has the dependencies of [Results].
type Config struct {
	Catalog *catalog.Client // required
	// Store has the copies. Nil: results are the catalog's alone, and nothing else is needed but the ledger, by Forget alone.
	Store Store
	// Ledger has a row for each copy, and Held is the API key that results are copied under.
	Ledger *ledger.Ledger
	Held   *catalog.Credential
	// Name is the name of the ledger in the store, under which results are copied: see [ledger.Ledger.StoreName].
	Name   string
	Logger *slog.Logger
}

// Source is where the bytes of a result come from.
type Source int

// The sources.
const (
	FromCatalog Source = iota
	FromCopy
)

// Content is a result that is open.
type Content struct {
	catalog.Content

	Source Source
}

const (
	waitForCopy = 10 * time.Second       // of a reader, for the first copy of what it reads
	waitForEnd  = 2 * time.Second        // of a reader that knows of it, until it is in the book
	lookForEnd  = 10 * time.Millisecond  // before it looks again; doubles
	lookAgain   = 200 * time.Millisecond // for a copy that another process makes
	leaveStore  = 10 * time.Second       // alone, after a failure, for those who may read from the catalog
)

// Results are the results of generations, with their copies where there is a store.
type Results struct {
	Config
	// Counts is what this process has done since its start.
	Counts Counts

	failed  atomic.Int64     // time of the last failure of the store; 0 after a success
	readers *limiter.Limiter // limits the readers of copies
	work    sync.WaitGroup
	freed   chan struct{} // has a value after a place was given back

	life context.Context //nolint:containedctx // of all copies: it ends with Run, and after that none begins
	end  context.CancelFunc

	mu      sync.Mutex
	copying map[string]chan struct{} // by generation, until the copy is made or has failed
	prompts map[string]string        // the owners of those that a reader waits for, by generation
	workers map[string]int           // copies that nobody waits for, by owner
	ends    map[string]chan struct{} // by generation, until its end is in the book
}

// Counts count what copies are made and read.
type Counts struct {
	Copied, Bytes, Failures, Reads, Rescued atomic.Int64
}

// New makes Results. It asks nobody.
func New(cfg Config) *Results {
	r := &Results{
		Config: cfg, workers: map[string]int{}, readers: limiter.New(CopyReaders),
		freed: make(chan struct{}, 1), copying: map[string]chan struct{}{}, prompts: map[string]string{},
		ends: map[string]chan struct{}{},
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// Keeps reports whether there is a store.
func (r *Results) Keeps() bool { return r.Store != nil }

// Has reports whether there is a copy of a result. Where the ledger does not answer, none is known of.
func (r *Results) Has(ctx context.Context, id string) bool {
	if r.Store == nil {
		return false
	}
	row, _, err := r.Ledger.Content(ctx, id)
	return err == nil && hasCopy(row)
}

// hasCopy reports whether there is a copy of a result. While a result is copied again its earlier copy is read.
func hasCopy(row ledger.Content) bool {
	return row.State == ledger.ContentCopied || row.State == ledger.ContentWaiting && row.Object != ""
}

// Fetch records that an operator wants a result copied again, and waits until it is copied, a try has failed, or ctx is done.
// It reports whether the ledger has such a result.
func (r *Results) Fetch(ctx context.Context, by ledger.By, generation string) (row ledger.Content, has bool, err error) {
	if has, err = r.Ledger.FetchContent(ctx, by, generation); err != nil || !has {
		return row, has, err
	}
	for {
		row, _, err = r.Ledger.Content(ctx, generation)
		tried := row.Problem != "" && !row.Claimed
		if err != nil || row.State != ledger.ContentWaiting || tried || !sleep(ctx, lookAgain) {
			return row, true, err
		}
	}
}

// AwaitEnd waits for a while until the end of a generation is in the book that a watcher has been told of already, and
// with it the wish for a copy. However many wait for one generation, one asks the book for all.
func (r *Results) AwaitEnd(ctx context.Context, id string) {
	if r.Store == nil {
		return
	}
	select {
	case <-r.endOf(ctx, id):
	case <-ctx.Done():
	}
}

// endOf gives what ends with the wait for the end of a generation. Whoever comes first begins it.
func (r *Results) endOf(ctx context.Context, id string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ended := r.ends[id]; ended != nil {
		return ended
	}
	ended := make(chan struct{})
	if r.life.Err() != nil {
		close(ended)
		return ended
	}
	r.ends[id] = ended
	r.work.Go(func() {
		r.lookForEnd(context.WithoutCancel(ctx), id) // the others wait for it too
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.ends, id)
		close(ended)
	})
	return ended
}

// lookForEnd asks the book for the end of a generation, until it is there, its time is over, or all end.
func (r *Results) lookForEnd(ctx context.Context, id string) {
	ctx, cancel := r.inLife(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, waitForEnd)
	defer stop()
	for pause := lookForEnd; ; pause *= 2 {
		awaits, err := r.Ledger.AwaitsEnd(ctx, id)
		if err != nil || !awaits || !sleep(ctx, pause) {
			return
		}
	}
}

// inLife is a context that ends with all copies too.
func (r *Results) inLife(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.life, cancel) //nolint:contextcheck // the life of all, beside that of this one
	return ctx, func() {
		stop()
		cancel()
	}
}

// Open opens a result at an offset, as [catalog.Client.Content] does: from its copy, or the catalog where there is none.
// A result that is to be copied is copied first, for a while: its readers, here and elsewhere, read the catalog once.
func (r *Results) Open(ctx context.Context, cred catalog.Credential, id string, offset int64, etag string) (*Content, error) {
	row, copied := r.find(ctx, id)
	if !copied {
		return r.fromCatalog(ctx, cred, row, id, offset, etag)
	}
	if r.isAway() {
		if c, err := r.fromCatalog(ctx, cred, row, id, offset, etag); err == nil {
			r.Counts.Rescued.Add(1)
			return c, nil
		}
	}
	c, err := r.fromCopy(ctx, cred, row, offset, etag)
	busy := catalog.KindOf(err) == catalog.KindBusy // too many read copies: the catalog has places of its own
	if _, told := errors.AsType[*catalog.Error](err); err == nil || told && !busy || ctx.Err() != nil {
		return c, err
	}
	c, failed := r.fromCatalog(ctx, cred, row, id, offset, etag)
	if busy && failed != nil {
		return nil, err
	}
	if failed != nil && ctx.Err() == nil {
		return nil, &catalog.Error{Kind: catalog.KindUnavailable, Op: opRead, Message: "the store of results does not answer, and the catalog has not the bytes", Err: err}
	}
	if failed == nil && !busy {
		r.rescued(ctx, row, err)
	}
	return c, failed
}

// opRead names what has failed in errors.
const opRead = "read the copy of a result"

// find gives the copy of a result, after a while where it is being made.
func (r *Results) find(ctx context.Context, id string) (row ledger.Content, copied bool) {
	if r.Store == nil {
		return row, false
	}
	row, found, err := r.Ledger.Content(ctx, id)
	if err == nil && found && row.State == ledger.ContentWaiting && !hasCopy(row) && !r.isAway() {
		row, err = r.await(ctx, row)
	}
	return row, err == nil && hasCopy(row)
}

// await waits for a copy that is being made, or makes it.
func (r *Results) await(ctx context.Context, row ledger.Content) (ledger.Content, error) {
	waiting, cancel := context.WithTimeout(ctx, waitForCopy)
	defer cancel()
	for {
		made, comes := r.prompt(waiting, row)
		if !comes {
			return row, nil
		}
		select {
		case <-made: // nil where another process makes it
		case <-time.After(lookAgain):
			if made == nil {
				break
			}
			select {
			case <-made:
			case <-waiting.Done():
			}
		case <-waiting.Done():
		}
		next, found, err := r.Ledger.Content(ctx, row.Generation)
		if tried := next.Problem != "" && !next.Claimed; err != nil || !found || next.State != ledger.ContentWaiting || tried || waiting.Err() != nil {
			return next, err
		}
		row = next
	}
}

// prompt gives what ends with the copy of a result that this process makes, and begins to make it where nobody does. It
// reports whether there is one to wait for: an owner has a share of the places alone, and who gets none has the catalog.
func (r *Results) prompt(ctx context.Context, row ledger.Content) (made chan struct{}, comes bool) {
	made, comes, mine := r.takePrompt(row)
	if !mine {
		return made, comes
	}
	claim, found, err := r.Ledger.TakeContentOf(ctx, row.Generation)
	if err != nil || !found {
		r.givePrompt(row.Generation)
		return nil, true
	}
	made = r.begin(context.WithoutCancel(ctx), claim, func() { r.givePrompt(row.Generation) }) // the others wait for it too
	return made, made != nil
}

// takePrompt takes a place for a copy that nobody makes.
func (r *Results) takePrompt(row ledger.Content) (made chan struct{}, comes, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	made = r.copying[row.Generation]
	if _, asked := r.prompts[row.Generation]; asked || made != nil || row.Claimed {
		return made, true, false
	}
	share := promptsOfOne
	for _, owner := range r.prompts {
		if owner == row.Owner {
			share--
		}
	}
	if share <= 0 || len(r.prompts) >= copiesAtOnce || r.life.Err() != nil {
		return nil, false, false
	}
	r.prompts[row.Generation] = row.Owner
	return nil, true, true
}

func (r *Results) givePrompt(generation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.prompts, generation)
}

// isAway reports whether the store has failed lately.
func (r *Results) isAway() bool {
	at := r.failed.Load()
	return at != 0 && time.Since(time.UnixMicro(at)) < leaveStore
}

// note notes how the store has done.
func (r *Results) note(err error) {
	if err != nil {
		r.failed.Store(time.Now().UnixMicro())
	} else if r.failed.Load() != 0 {
		r.failed.Store(0)
	}
}

// rescued notes that the catalog had to help out for a copy. One that has not the bytes is made again, as the catalog has
// them.
func (r *Results) rescued(ctx context.Context, row ledger.Content, cause error) {
	r.Counts.Rescued.Add(1)
	if !errors.Is(cause, errWrong) && !errors.Is(cause, ErrAbsent) {
		return
	}
	r.Logger.ErrorContext(ctx, "the store has not the bytes of a result that were written there; it is copied again", "generation", row.Generation, "object", row.Object, "error", cause)
	_ = r.Ledger.ContentIsLost(context.WithoutCancel(ctx), row, bookText(cause.Error(), mostProblem)) // else the next reader finds it out
}
