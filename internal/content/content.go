// Package content keeps copies of results, which outlive the results of the catalog.
//
//	content   opens a result: its copy, otherwise the file of the catalog
//	original  the same result in the catalog
//	copy      the jobs that copy results into the store
//	source    the result in the catalog that is copied, and responses that are not the result
//	delete    the jobs that delete copies
//	verify    differences between the ledger and the store
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

// Config has the dependencies of [Results].
type Config struct {
	Catalog *catalog.Client // required
	// Store has the copies. Nil means that only the catalog has results.
	Store Store
	// Ledger has a row for each copy, and Held is the API key under which results are copied.
	Ledger *ledger.Ledger
	Held   *catalog.Credential
	// Name is the name of the ledger in the store: see [ledger.Ledger.StoreName].
	Name   string
	Logger *slog.Logger
}

// Source is the origin of the bytes of a result.
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

// Results are the results of generations, with their copies if there is a store.
type Results struct {
	Config

	Counts Counts // since the start of the process
}

// Counts are numbers of copies that this process has made and read. Rescued counts the reads that the catalog served instead.
type Counts struct {
	Copied, Bytes, Failures, Reads, Rescued atomic.Int64
}

// New returns Results. It starts nothing: [jobs.Jobs] runs its kinds.
func New(cfg Config) *Results { return &Results{Config: cfg} }

// Keeps reports whether there is a store.
func (r *Results) Keeps() bool { return r.Store != nil }

// Has reports whether there is a copy of a result. If the ledger fails, it returns false.
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

// hasCopy reports whether there is a copy of a result. While a result is copied again, its earlier copy is read.
func hasCopy(row ledger.Content) bool {
	return row.State == ledger.ContentCopied || row.State == ledger.ContentWaiting && row.Object != ""
}

const lookInterval = 200 * time.Millisecond // interval of the checks for the result of a job

// Fetch records that an operator requests another copy of a result. It waits until the result is copied, an attempt has
// failed, or ctx is done. It reports whether the ledger has such a result.
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

// Open opens a result at an offset, as [catalog.Client.Content] does: its copy, or the file of the catalog if there is no copy
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
		_ = r.Ledger.ContentIsLost(ctx, row) // otherwise the next reader detects the loss
	}
	c, failed := r.fromCatalog(ctx, cred, row, id, offset, etag)
	if failed != nil {
		return nil, &catalog.Error{Kind: catalog.KindUnavailable, Op: opRead, Message: "neither the store of results nor the catalog has the bytes now", Err: errors.Join(err, failed)}
	}
	r.Counts.Rescued.Add(1)
	return c, nil
}

// opRead names the operation in errors.
const opRead = "read the copy of a result"

// errSize means that the object of a copy has another size than the copy.
var errSize = errors.New("size of the copy differs")

// fromCopy opens a copy. Its error is a [catalog.Error] if no source can serve the request.
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

// storeTimeout is the maximum time that the store may take to open an object, and for each read.
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
	idle     *time.Timer // runs during a read
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
