package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// transfer is one download: over as many streams as it takes, into one part file.
type transfer struct {
	id    string
	out   string
	force bool
	wait  time.Duration

	silent    bool // no progress is shown
	temporary bool // no part is kept for another run

	info    *easelv1.ContentInfo // nil until the first chunk
	target  string
	size    int64                   // of the whole as the server says it, -1 where it does not
	part    *partFile               // nil until the first chunk
	summary *easelv1.ContentSummary // of the whole; nil where no stream has carried all of it

	progress progress
}

// maxIdleTries is how many streams in a row may bring no byte.
const maxIdleTries = 6

var (
	errCorrupt = errors.New("bytes arrived damaged")
	// errResume ends a stream that began at 0 where an earlier run has left a part.
	errResume = errors.New("an earlier download is gone on with")
)

// transfer downloads a result and gives the path of the file. A file that is there is whole
// and checked; the next run downloads what is missing after a failure.
func (s *session) transfer(ctx context.Context, d *transfer) (path string, err error) {
	if d.out != "" && !isDir(d.out) { // else the name is not known yet
		if err := mayWrite(d.out, d.force); err != nil {
			return "", err
		}
	}
	started := time.Now()
	stop := func() {}
	if !d.silent {
		stop = s.ticking(func() { s.ShowLive(d.progress.line(s.ErrStyle, s.BarWidth(), time.Since(started))) })
	}
	err = s.transferAll(ctx, d)
	stop()
	if d.part == nil {
		return "", err
	}
	if err == nil {
		if err = d.part.finish(d.target, d.force); err == nil {
			return d.target, nil
		}
	}
	return "", d.leave(ctx, err)
}

// leave keeps or drops the part of a download that failed.
func (d *transfer) leave(ctx context.Context, err error) error {
	if status.Code(err) == codes.DataLoss || errors.Is(err, errCorrupt) {
		d.part.discard()
		return err
	}
	if d.temporary || errors.As(err, new(*Problem)) {
		d.part.discard()
		return err
	}
	if !d.part.keep() {
		return err
	}
	f := explain(ctx, err)
	return &Problem{
		Exit: f.exit, Text: f.message, Err: err,
		Cure: "Run the same command again to go on after " + formatBytes(d.part.size) + ".",
	}
}

// transferAll opens streams until every byte is there.
func (s *session) transferAll(ctx context.Context, d *transfer) error {
	for idle := 0; ; {
		before := d.progress.arrived.Load()
		err := s.transferStream(ctx, d)
		switch {
		case err == nil:
			return d.check()
		case errors.Is(err, errResume):
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case endsTransfer(err):
			return err
		}
		if idle++; d.progress.arrived.Load() > before {
			idle = 0
		}
		if idle >= maxIdleTries {
			return err
		}
		if err := d.beforeResume(); err != nil {
			return err
		}
		delay := delayAfter(err, idle)
		if !s.quiet && !s.json {
			s.Tell(s.ErrStyle.Paint(terminal.Dim, "the download broke off ("+messageOf(err)+"), going on in "+formatDuration(delay)))
		}
		if err := sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// beforeResume throws away bytes of which nothing tells whether the rest belongs to them.
func (d *transfer) beforeResume() error {
	if d.part == nil || d.info.Etag != "" {
		return nil
	}
	d.progress.arrived.Store(0)
	return d.part.restart()
}

// endsTransfer reports whether another stream would end the same way.
func endsTransfer(err error) bool {
	if isPermanent(err) || errors.As(err, new(*Problem)) || errors.As(err, new(*os.PathError)) {
		return true
	}
	ends := []codes.Code{codes.OutOfRange, codes.DataLoss}
	return slices.Contains(ends, status.Code(err))
}

// transferStream reads one stream. Nil means that it ended as it should.
func (s *session) transferStream(ctx context.Context, d *transfer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &easelv1.DownloadGenerationRequest{GenerationId: d.id}
	if d.wait > 0 {
		request.WaitTimeout = span(d.wait)
	}
	if d.part != nil {
		request.ReadOffset, request.Etag = d.part.size, d.info.Etag
	}
	stream, err := s.generations.DownloadGeneration(ctx, request)
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.take(m.GetChunk())
		}
		if err != nil {
			return err
		}
	}
}

// take checks one chunk and writes it.
func (d *transfer) take(c *easelv1.ContentChunk) error {
	if c.GetInfo() != nil && d.part == nil {
		if err := d.begin(c.Info); err != nil {
			return err
		}
		if d.part.size > 0 {
			return errResume
		}
	}
	if d.part == nil {
		return fmt.Errorf("%w: they began without saying what they are", errCorrupt)
	}
	if c.GetOffset() != d.part.size {
		return fmt.Errorf("%w: byte %d came instead of byte %d", errCorrupt, c.GetOffset(), d.part.size)
	}
	if crc32.Checksum(c.Data, crc32.MakeTable(crc32.Castagnoli)) != c.Crc32C {
		return fmt.Errorf("%w: a chunk at byte %d has a wrong checksum", errCorrupt, c.Offset)
	}
	n, err := d.part.Write(c.Data)
	d.progress.arrived.Add(int64(n))
	if c.Summary != nil {
		d.summary = c.Summary
	}
	return err
}

// begin opens the file as soon as its name is known.
func (d *transfer) begin(info *easelv1.ContentInfo) (err error) {
	if d.target, err = targetPath(d.out, info.FileName); err != nil {
		return err
	}
	if d.size = -1; info.SizeBytes != nil {
		d.size = info.GetSizeBytes()
	}
	if err = mayWrite(d.target, d.force); err != nil {
		return err
	}
	identity := ""
	if info.Etag != "" {
		identity = d.id + "\n" + info.Etag
	}
	part, err := openPart(d.target, identity)
	if err != nil {
		return err
	}
	d.info, d.part = info, part
	d.progress.begun.Store(part.size)
	d.progress.total.Store(info.GetSizeBytes())
	return nil
}

// check compares what is in the file with what the server says of the whole. After a
// resume the server has not seen the whole; then size and etag stand for it.
func (d *transfer) check() error {
	switch {
	case d.part == nil:
		return errors.New("the server sent no content")
	case d.info.SizeBytes != nil && d.part.size != d.info.GetSizeBytes():
		return fmt.Errorf("%w: %d bytes came instead of %d", errCorrupt, d.part.size, d.info.GetSizeBytes())
	case d.summary == nil:
		return nil
	case d.summary.SizeBytes != d.part.size:
		return fmt.Errorf("%w: %d bytes came instead of %d", errCorrupt, d.part.size, d.summary.SizeBytes)
	case d.summary.Sha256 != d.part.sha256():
		return fmt.Errorf("%w: the SHA-256 is %s instead of %s", errCorrupt, d.part.sha256(), d.summary.Sha256)
	}
	return nil
}

// isSaved reports whether the target is a file of the size that the result has.
func (d *transfer) isSaved() bool {
	info, err := os.Lstat(d.target)
	return d.part == nil && d.size >= 0 && err == nil && info.Mode().Type() == fs.FileMode(0) && info.Size() == d.size
}

// progress counts bytes as they arrive. It is written by the download and read by the
// live line.
type progress struct {
	arrived atomic.Int64 // in this run
	begun   atomic.Int64 // left by an earlier run
	total   atomic.Int64 // of the whole, 0 where nobody knows
}

// line is the live line of a download, with a bar of so many letters.
func (p *progress) line(look terminal.Style, bar int, elapsed time.Duration) string {
	here, total := p.begun.Load()+p.arrived.Load(), p.total.Load()
	rate := ""
	if elapsed > 100*time.Millisecond {
		rate = "  " + formatBytes(int64(float64(p.arrived.Load())/elapsed.Seconds())) + "/s"
	}
	if here == 0 {
		return "waiting for the first byte" + look.Paint(terminal.Dim, "  "+formatDuration(elapsed))
	}
	if total == 0 {
		return "downloading " + formatBytes(here) + look.Paint(terminal.Dim, rate)
	}
	return look.Bar(float64(here)/float64(total), bar) + " " + formatBytes(here) + " of " + formatBytes(total) + look.Paint(terminal.Dim, rate)
}
