// Package content stores copies of results, which remain when the catalog no longer has the results.
//
//	content   opens a result: its copy, or the catalog's file if there is no copy
//	upstream  opens a result in the catalog
//	copy      the jobs that copy results into the store
//	download  opens the result to copy in the catalog, and detects responses that are not the result
//	delete    the jobs that delete copies
//	verify    compares the ledger with the store
//	store, dir, s3  the stores
package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// Config contains the dependencies of [Results].
type Config struct {
	Catalog *catalog.Client // required
	// Store stores the copies. Nil means that there are no copies.
	Store Store
	// Ledger has a row for each copy. SharedKey is the shared API key, which is used to copy results.
	Ledger    *ledger.Ledger
	SharedKey *catalog.Credential
	// Name is the name of the ledger in the store; see [ledger.Ledger.StoreName].
	Name   string
	Logger *slog.Logger
}

// Source is the place from which the bytes of a result are read.
type Source int

// The sources.
const (
	FromCatalog Source = iota
	FromCopy
)

// Content is an open result.
type Content struct {
	catalog.Content

	Source Source
}

// Results opens the results of generations, and manages their copies if there is a store.
type Results struct {
	Config

	Counts Counts // counted since the start of the process
}

// Counts contains the numbers of copies that this process has written and read. Rescued counts reads that the catalog served
// because the copy failed.
type Counts struct {
	Copied, Bytes, Failures, Reads, Rescued atomic.Int64
}

// New returns Results. It starts nothing; [jobs.Jobs] runs the jobs of [Results.Kinds].
func New(cfg Config) *Results { return &Results{Config: cfg} }

// Keeps reports whether there is a store.
func (r *Results) Keeps() bool { return r.Store != nil }

// Has reports whether a result has a copy. It returns false if the ledger fails.
func (r *Results) Has(ctx context.Context, id string) bool {
	_, copied := r.find(ctx, id)
	return copied
}

// find returns the ledger's row of a result, and reports whether there is a copy.
func (r *Results) find(ctx context.Context, id string) (row ledger.Content, copied bool) {
	if r.Store == nil {
		return row, false
	}
	row, _, err := r.Ledger.Content(ctx, id)
	return row, err == nil && hasCopy(row)
}

// hasCopy reports whether a row has a copy. An earlier copy can be read while the result is copied again.
func hasCopy(row ledger.Content) bool {
	return row.State == ledger.ContentCopied || row.State == ledger.ContentWaiting && row.Object != ""
}

const lookInterval = 200 * time.Millisecond // interval of the checks in [Results.Fetch] and [Results.Forget]

// Fetch requests another copy of a result for an operator. It waits until the result is copied, an attempt has failed, or ctx
// is done. has is false if the ledger has no such result.
func (r *Results) Fetch(ctx context.Context, by ledger.By, generation string) (row ledger.Content, has bool, err error) {
	if has, err = r.Ledger.FetchContent(ctx, by, generation); err != nil || !has {
		return row, has, err
	}
	for {
		row, _, err = r.Ledger.Content(ctx, generation)
		if err != nil || row.State != ledger.ContentWaiting || row.Problem != "" || !sleep(ctx, lookInterval) {
			return row, true, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Open opens a result at an offset, like [catalog.Client.Content]. It opens the copy, or the catalog's file if there is no copy
// or the store fails.
func (r *Results) Open(ctx context.Context, cred catalog.Credential, id string, offset int64, etag string) (*Content, error) {
	row, copied := r.find(ctx, id)
	if !copied {
		return r.fromCatalog(ctx, cred, row, id, offset, etag)
	}
	c, err := r.fromCopy(ctx, row, offset, etag)
	if _, final := errors.AsType[*catalog.Error](err); err == nil || final || ctx.Err() != nil {
		return c, err
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errSize) {
		r.Logger.ErrorContext(ctx, "result copy lost; copying again", "generation", id, "object", row.Object, "error", err)
		_ = r.Ledger.ContentIsLost(ctx, row) // if the ledger fails, the next reader detects the loss
	}
	c, failed := r.fromCatalog(ctx, cred, row, id, offset, etag)
	if failed != nil {
		return nil, &catalog.Error{Kind: catalog.KindUnavailable, Op: opRead, Message: "result unavailable in the store and in the catalog", Err: errors.Join(err, failed)}
	}
	r.Counts.Rescued.Add(1)
	return c, nil
}

// opRead is the operation that errors about copies name.
const opRead = "read the copy of a result"

// errSize means that an object in the store has another size than its copy in the ledger.
var errSize = errors.New("size of the copy differs")

// fromCopy opens a copy. The error is a [catalog.Error] if the catalog could not serve the request either.
func (r *Results) fromCopy(ctx context.Context, row ledger.Content, offset int64, etag string) (*Content, error) {
	if err := servable(row.Size, row.Etag, offset, etag); err != nil {
		return nil, err
	}
	body := io.ReadCloser(http.NoBody)
	if offset < row.Size {
		opened, err := r.openCopy(ctx, row, offset)
		if err != nil {
			return nil, err
		}
		body = opened
	}
	r.Counts.Reads.Add(1)
	return &Content{catalog.Content{Body: body, ContentType: row.ContentType, Offset: offset, Size: new(row.Size), Etag: row.Etag}, FromCopy}, nil
}

// storeTimeout is the maximum time for opening an object in the store, and for each read.
const storeTimeout = 10 * time.Second

// openCopy opens the object of a copy.
func (r *Results) openCopy(ctx context.Context, row ledger.Content, offset int64) (*copyBody, error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &copyBody{at: offset, size: row.Size, cancel: cancel, idle: time.AfterFunc(storeTimeout, cancel)}
	body, size, err := r.Store.Get(ctx, row.Object, offset)
	b.idle.Stop()
	if err != nil {
		cancel()
		return nil, err
	}
	b.ReadCloser = body
	if size != row.Size {
		_ = b.Close() // nothing was read
		return nil, fmt.Errorf("%w: %d bytes instead of %d", errSize, size, row.Size)
	}
	return b, nil
}

// copyBody reads a copy. It returns [io.EOF] only after the last byte.
type copyBody struct {
	io.ReadCloser

	at, size int64
	idle     *time.Timer // runs during a read, and cancels it when storeTimeout is over
	cancel   context.CancelFunc
}

// Read implements [io.Reader].
func (b *copyBody) Read(p []byte) (int, error) {
	b.idle.Reset(storeTimeout)
	n, err := b.ReadCloser.Read(p)
	b.idle.Stop()
	b.at += int64(n)
	if err != nil && (err != io.EOF || b.at != b.size) { //nolint:errorlint // an error that wraps io.EOF is a broken body
		err = &catalog.Error{Kind: catalog.KindInterrupted, Op: opRead, NextOffset: b.at, Err: err}
	}
	return n, err
}

// Close implements [io.Closer].
func (b *copyBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
