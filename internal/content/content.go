// Package content opens the results of generations and keeps copies of them. A copy can still be read after the catalog has
// deleted the result. The package consists of these files:
//
//	content        opens a copy of a result, or the result in the catalog if there is no copy
//	catalogsource  opens results in the catalog
//	copy           runs the jobs that copy results into the store
//	copysource     opens results for copy jobs, and rejects responses that can't be the result
//	delete         runs the jobs that delete copies
//	verify         compares the ledger with the store
//	store          defines the interface of a store
//	dir, s3        implement stores in a directory and in S3
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
	// Store stores the copies of results. Nil means that results are not copied.
	Store Store
	// Ledger records each copy. SharedKey is the shared API key, which copy jobs use to read results from the catalog.
	Ledger    *ledger.Ledger
	SharedKey *catalog.Credential
	// Name is the name of the ledger in the store; see [ledger.Ledger.StoreName].
	Name   string
	Logger *slog.Logger
}

// Source is the place from which a result is read.
type Source int

// The sources.
const (
	FromCatalog Source = iota
	FromCopy
)

// Content is a result that is open for reading.
type Content struct {
	catalog.Content

	Source Source
}

// Results opens the results of generations, and manages their copies if there is a store.
type Results struct {
	Config

	Counts Counts // counters of copies and reads since the start of the process
}

// Counts contains counters of this process. Copied, Bytes and Failures count the copied results, their bytes, and the failed
// attempts to copy. Reads counts the results that were opened from a copy. Rescued counts the results that were opened in the
// catalog because their copy could not be opened.
type Counts struct {
	Copied, Bytes, Failures, Reads, Rescued atomic.Int64
}

// New creates Results. It starts no goroutines. To copy and delete results, a [jobs.Jobs] must run the kinds that
// [Results.Kinds] returns.
func New(cfg Config) *Results { return &Results{Config: cfg} }

// Keeps reports whether copies of results are kept, which requires a store.
func (r *Results) Keeps() bool { return r.Store != nil }

// Has reports whether the result of a generation has a copy. It also returns false if the ledger can't be read.
func (r *Results) Has(ctx context.Context, id string) bool {
	_, copied := r.findRow(ctx, id)
	return copied
}

// findRow returns the ledger's row for the copy of a result. isCopied is true if the copy can be read.
func (r *Results) findRow(ctx context.Context, id string) (row ledger.Content, isCopied bool) {
	if r.Store == nil {
		return row, false
	}
	row, _, err := r.Ledger.Content(ctx, id)
	return row, err == nil && hasCopy(row)
}

// hasCopy reports whether the store has a readable copy of the result. The earlier copy stays readable while the result is
// copied again.
func hasCopy(row ledger.Content) bool {
	return row.State == ledger.ContentCopied || row.State == ledger.ContentWaiting && row.Object != ""
}

const lookInterval = 200 * time.Millisecond // interval at which [Results.Fetch] and [Results.Forget] read the ledger while they wait

// Fetch requests a new copy of a generation's result for an operator. It returns when the result has been copied, when an
// attempt has failed, or when ctx is done. The returned bool reports whether the ledger has such a result.
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

// Open opens a result at an offset, like [catalog.Client.Content]. It opens the copy if there is one. If there is no copy, or
// the store fails, it opens the result in the catalog.
func (r *Results) Open(ctx context.Context, cred catalog.Credential, id string, offset int64, etag string) (*Content, error) {
	row, copied := r.findRow(ctx, id)
	if !copied {
		return r.openFromCatalog(ctx, cred, row, id, offset, etag)
	}
	c, err := r.openFromCopy(ctx, row, offset, etag)
	if _, final := errors.AsType[*catalog.Error](err); err == nil || final || ctx.Err() != nil {
		return c, err
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errSize) {
		r.Logger.ErrorContext(ctx, "result copy lost; copying again", "generation", id, "object", row.Object, "error", err)
		_ = r.Ledger.ContentIsLost(ctx, row) // if this call fails, the next read of the copy detects the loss again
	}
	c, failed := r.openFromCatalog(ctx, cred, row, id, offset, etag)
	if failed != nil {
		return nil, &catalog.Error{Kind: catalog.KindUnavailable, Op: opRead, Message: "result unavailable in the store and in the catalog", Err: errors.Join(err, failed)}
	}
	r.Counts.Rescued.Add(1)
	return c, nil
}

// opRead is the name of the operation in errors about reading a copy.
const opRead = "read the copy of a result"

// errSize means that the size of an object in the store differs from the size recorded in the ledger.
var errSize = errors.New("size of the copy differs from the size in the ledger")

// openFromCopy opens the copy of a result at an offset. If the offset or the etag does not fit the result, the error is a
// [catalog.Error].
func (r *Results) openFromCopy(ctx context.Context, row ledger.Content, offset int64, etag string) (*Content, error) {
	if err := checkServable(row.Size, row.Etag, offset, etag); err != nil {
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

// storeTimeout is the timeout for opening an object in the store, for deleting it, and for each read from it.
const storeTimeout = 10 * time.Second

// openCopy opens the object that contains a copy, and checks its size.
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
		_ = b.Close() // the error can be ignored, because nothing was read
		return nil, fmt.Errorf("%w: %d bytes instead of %d", errSize, size, row.Size)
	}
	return b, nil
}

// copyBody reads a copy. It returns [io.EOF] only after the last byte.
type copyBody struct {
	io.ReadCloser

	at, size int64
	idle     *time.Timer // runs only during a read, and calls cancel if the read takes longer than storeTimeout
	cancel   context.CancelFunc
}

// Read implements [io.Reader].
func (b *copyBody) Read(p []byte) (int, error) {
	b.idle.Reset(storeTimeout)
	n, err := b.ReadCloser.Read(p)
	b.idle.Stop()
	b.at += int64(n)
	if err != nil && (err != io.EOF || b.at != b.size) { //nolint:errorlint // only io.EOF itself marks the end, so errors.Is is not used
		err = &catalog.Error{Kind: catalog.KindInterrupted, Op: opRead, NextOffset: b.at, Err: err}
	}
	return n, err
}

// Close implements [io.Closer].
func (b *copyBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
