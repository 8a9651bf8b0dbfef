package content

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
)

// blockSize is that of the blocks of a copy that have checksums of their own: what was read is checked before it is passed
// on.
const blockSize = 64 << 10

// CopyReaders is how many readers of copies there are at once. What each may hold is one of the prices of package server.
const CopyReaders = 256

// waitForPlace is how long the others wait, where their callers have as much time.
const waitForPlace = 10 * time.Second

// storeTime is how long the store may take to open an object, and for each block.
const storeTime = 10 * time.Second

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errWrong is the error of a copy whose bytes are not those that were written.
var errWrong = errors.New("the bytes of the copy are not those that were written")

// blockSums collects the checksums of blocks.
type blockSums struct {
	sums []byte
	sum  uint32
	at   int64
}

// Write implements [io.Writer].
func (b *blockSums) Write(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 {
		n := min(int64(len(p)), blockSize-b.at%blockSize)
		b.sum = crc32.Update(b.sum, castagnoli, p[:n])
		b.at, p = b.at+n, p[n:]
		if b.at%blockSize == 0 {
			b.end()
		}
	}
	return all, nil
}

func (b *blockSums) end() { b.sums, b.sum = binary.BigEndian.AppendUint32(b.sums, b.sum), 0 }

// text is how the book has them.
func (b *blockSums) text() string {
	if b.at%blockSize != 0 {
		b.end()
	}
	return base64.RawStdEncoding.EncodeToString(b.sums)
}

// copyReader reads a copy, block by block. Where the store fails, the catalog has the rest.
type copyReader struct {
	results *Results
	ctx     context.Context //nolint:containedctx // of the reader, as that of the catalog's body
	cred    catalog.Credential
	row     ledger.Content
	sums    []byte

	place  *limiter.Permit // permit to read copies
	at     int64           // the next byte for the reader
	run    []byte          // the blocks that were read last
	left   []byte          // unread bytes of the run
	later  error           // error of the block after the run
	source io.ReadCloser
	cancel context.CancelCauseFunc
	timer  *time.Timer
	rescue bool // the source is the catalog
	err    error
}

// fromCopy opens a copy, and reads its first block. Its errors are those of the store, and the catalog's words where the
// request can't be served by any source.
func (r *Results) fromCopy(ctx context.Context, cred catalog.Credential, row ledger.Content, offset int64, etag string) (*Content, error) {
	if err := servable(row.Size, etagOf(row), offset, etag); err != nil {
		return nil, err
	}
	sums, err := base64.RawStdEncoding.DecodeString(row.Blocks)
	if want := 4 * ((row.Size + blockSize - 1) / blockSize); err != nil || int64(len(sums)) != want {
		return nil, fmt.Errorf("%w: its checksums are not whole", errWrong)
	}
	place, err := r.enter(ctx, cred)
	if err != nil {
		return nil, err
	}
	b := &copyReader{results: r, ctx: ctx, cred: cred, row: row, sums: sums, place: place, at: offset}
	if err := b.fill(blockSize); err != nil && !errors.Is(err, io.EOF) { //nolint:contextcheck // the reader has it
		_ = b.Close() // it has no error of its own
		return nil, err
	}
	r.Counts.Reads.Add(1)
	size := row.Size
	return &Content{catalog.Content{Body: b, ContentType: row.ContentType, Offset: offset, Size: &size, Etag: etagOf(row)}, FromCopy}, nil
}

// enter takes a place among those who read copies. Who finds none waits for it, whoever has the fewest before others.
func (r *Results) enter(ctx context.Context, cred catalog.Credential) (*limiter.Permit, error) {
	ctx, cancel := context.WithTimeout(ctx, waitForPlace)
	defer cancel()
	place, err := r.readers.Acquire(ctx, limiter.Request{Owner: cred.Owner, Weight: cred.Weight})
	if rejected, ok := errors.AsType[*limiter.Error](err); ok {
		return nil, &catalog.Error{Kind: catalog.KindBusy, Op: opRead, Message: "too many copies are being read", RetryAfter: rejected.RetryAfter}
	}
	return place, err
}

// Read implements [io.Reader].
func (b *copyReader) Read(p []byte) (int, error) {
	data, err := b.Next(len(p))
	return copy(p, data), err
}

// Next gives the next bytes, at most so many, without a copy of them: they stay until the call after. The last ones come
// with [io.EOF]. It reads and holds as many blocks as that is, or one: a reader over the network sleeps after each call.
func (b *copyReader) Next(most int) ([]byte, error) {
	if len(b.left) == 0 && b.err == nil {
		b.err = b.next(most)
	}
	if len(b.left) == 0 {
		return nil, b.err
	}
	data := b.left[:min(len(b.left), most)]
	b.left, b.at = b.left[len(data):], b.at+int64(len(data))
	if b.at == b.row.Size {
		return data, io.EOF
	}
	return data, nil
}

// Close implements [io.Closer].
func (b *copyReader) Close() error {
	b.close()
	b.place.Release(limiter.Result{})
	if b.err == nil {
		b.err = errors.New("content: read after close")
	}
	return nil
}

func (b *copyReader) close() {
	if b.source == nil {
		return
	}
	b.cancel(context.Canceled)
	b.timer.Stop()
	_ = b.source.Close() // what was wanted of it was read
	b.source = nil
}

// next reads the next block, from the catalog where the store fails.
func (b *copyReader) next(most int) error {
	err := b.fill(most)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	b.close()
	b.run = nil // a read that hangs has it still
	if ended := b.ctx.Err(); ended != nil {
		return ended
	}
	if b.rescue {
		return b.interrupted(err)
	}
	b.rescue = true
	if failed := b.fill(blockSize); failed != nil {
		b.close()
		return b.interrupted(errors.Join(err, failed))
	}
	b.results.rescued(b.ctx, b.row, err)
	return nil
}

// interrupted is the error of a reader that no source serves any more. It may come back.
func (b *copyReader) interrupted(err error) error {
	if catalog.KindOf(err) == catalog.KindContentChanged {
		return err
	}
	return &catalog.Error{Kind: catalog.KindInterrupted, Op: opRead, NextOffset: b.at, Err: err}
}

// fill reads the run of blocks that begins where the reader is, of at most so many bytes. At the end its error is [io.EOF]. That of a block which is
// not the first is one of the next run.
func (b *copyReader) fill(most int) (err error) {
	if b.at >= b.row.Size {
		b.close()
		return io.EOF
	}
	if err, b.later = b.later, nil; err != nil {
		return err
	}
	start := b.at / blockSize * blockSize
	end := start + min(int64(max(most/blockSize, 1))*blockSize, b.row.Size-start)
	if int64(len(b.run)) < end-start {
		b.run = make([]byte, end-start)
	}
	if err := b.open(start); err != nil {
		return err
	}
	for at := start; at < end; at += blockSize {
		if err := b.read(at, b.run[at-start:min(at+blockSize, end)-start]); err != nil && at == start {
			return err
		} else if err != nil {
			b.later, end = err, at
		}
	}
	b.left = b.run[b.at-start : end-start]
	return nil
}

// read reads the block at an offset, and checks it.
func (b *copyReader) read(at int64, block []byte) error {
	b.timer.Reset(b.blockTime())
	_, err := io.ReadFull(b.source, block)
	b.timer.Stop()
	if !b.rescue && b.ctx.Err() == nil {
		b.results.note(notShort(err))
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: they are too few", errWrong)
	case err != nil:
		return err
	case crc32.Checksum(block, castagnoli) == binary.BigEndian.Uint32(b.sums[at/blockSize*4:]):
		return nil
	case b.rescue:
		return &catalog.Error{Kind: catalog.KindContentChanged, Op: opRead, Message: "the catalog has other bytes than the copy had"}
	}
	return errWrong
}

// notShort is an error of the store itself: an object that is too short is that object's alone.
func notShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// blockTime is how long a block may take: the catalog's body has limits of its own.
func (b *copyReader) blockTime() time.Duration {
	if b.rescue {
		return time.Hour
	}
	return storeTime
}

// open opens the source at a block, unless it is open.
func (b *copyReader) open(start int64) error {
	if b.source != nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	b.cancel, b.timer = cancel, time.AfterFunc(b.blockTime(), func() { cancel(errSlow) })
	var err error
	if b.rescue {
		var whole *catalog.Content
		if whole, err = b.results.original(ctx, b.cred, b.row, b.row.Generation, start, b.row.Etag); err == nil {
			b.source = whole.Body
		}
	} else if b.source, err = b.results.Store.Get(ctx, b.row.Object, start); err != nil {
		b.source = nil
		if !errors.Is(err, ErrAbsent) && b.ctx.Err() == nil {
			b.results.note(err)
		}
	}
	if err != nil {
		b.timer.Stop()
		cancel(err)
	}
	return err
}

// errSlow is the error of a store that has not answered in time.
var errSlow = errors.New("the store has not answered in time")
