package service

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	// chunkSize is how many bytes of a result one message carries.
	chunkSize = 64 << 10
	// largeChunk is the same where they flow: a GB takes 1.3 instead of 1.6 s, as there are
	// fewer reads, writes and wake-ups. It is the most that the contract allows.
	largeChunk = 256 << 10
	// A download flows after so many bytes, as long as each chunk comes and goes in so little
	// time. One that stalls, or is short, does so with small chunks in memory.
	flowsAfter  = 1 << 20
	flowsWithin = 100 * time.Millisecond
	// largeDownloads is how many downloads may have large chunks at once: together they keep
	// at most 20 MiB.
	largeDownloads = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type unsummedKey struct{}

// WithoutSums gives the context of a download whose caller hears of no checksum, so that none
// is computed: they would be 0.7 of the 1.2 s that a GB takes then. What comes from the catalog
// is checked all the same.
func WithoutSums(ctx context.Context) context.Context {
	return context.WithValue(ctx, unsummedKey{}, true)
}

// download is the part of a result to send.
type download struct {
	id     string
	offset int64
	limit  int64 // 0 = all
	etag   string
}

// DownloadGeneration streams the bytes of a result.
func (s *generations) DownloadGeneration(req *easelv1.DownloadGenerationRequest, stream grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error {
	ctx := stream.Context() // not ended by a drain: bytes on their way get the time that is left
	if wait := req.GetWaitTimeout().AsDuration(); wait > 0 {
		if _, err := s.await(ctx, req.GetGenerationId(), watch.Terminal, wait); err != nil {
			return err
		}
	}
	return s.content(ctx, download{
		id: req.GetGenerationId(), offset: req.GetReadOffset(), limit: req.GetReadLimit(), etag: req.GetEtag(),
	}, &patient{stream: stream, patience: s.cfg.DownloadPatience}, func(chunk *easelv1.ContentChunk, data mem.Buffer) Piece {
		return Piece{chunk: chunk, data: data, field: chunkOfDownload}
	})
}

// content sends a result in chunks: the first with what it is, the last, where the whole
// was read, with what was sent.
func (s *generations) content(ctx context.Context, d download, out *patient, piece func(*easelv1.ContentChunk, mem.Buffer) Piece) error {
	content, err := s.cfg.Catalog.Content(ctx, credential(ctx), d.id, d.offset, quoted(d.etag))
	if err != nil {
		return s.noContent(ctx, d.id, err)
	}
	s.downloads.Add(1)
	err = out.all(func(send func(any) error) error {
		defer s.downloads.Add(-1)
		defer content.Body.Close() // not sooner: it may be read until here
		c := chunker{
			offset: d.offset, left: d.limit, bounded: d.limit > 0, info: contentInfo(d.id, content), size: chunkSize,
			unsummed: ctx.Value(unsummedKey{}) != nil, downloads: &s.downloads,
			send: func(chunk *easelv1.ContentChunk, data mem.Buffer) error { return send(piece(chunk, data)) },
		}
		if d.offset == 0 && !c.unsummed {
			c.whole = newWholeSum()
			defer c.whole.stop()
		}
		return c.copy(content.Body)
	})
	return aboutGeneration(err, d.id)
}

// chunker cuts a body into messages.
type chunker struct {
	offset  int64
	left    int64 // bytes still wanted, where bounded
	bounded bool
	info    *easelv1.ContentInfo // of the first chunk; nil once it was sent
	whole   *wholeSum            // nil where the read did not begin at 0
	size    int64                // of the next chunk, at most
	flowing int64                // bytes sent without a pause
	send    func(*easelv1.ContentChunk, mem.Buffer) error

	unsummed  bool          // nobody hears of any checksum
	downloads *atomic.Int32 // that are open, this one among them
}

func (c *chunker) copy(body io.Reader) error {
	for {
		began := time.Now()
		// Another buffer each time: the message before may still be on its way.
		data := buffers.Get(int(c.room()))
		n, ended, broken := fill(body, *data)
		*data = (*data)[:n]
		buffer := mem.NewBuffer(data, buffers)
		chunk := c.next(buffer)
		full := c.bounded && c.left == 0
		if full && !ended {
			ended = c.atEnd(body)
		}
		if ended && c.whole != nil {
			chunk.Summary = &easelv1.ContentSummary{SizeBytes: c.offset, Sha256: c.whole.text()}
		}
		// Also before an error: what the caller has and next_offset must agree.
		if n > 0 || chunk.Info != nil || chunk.Summary != nil {
			if err := c.send(chunk, buffer); err != nil {
				return err
			}
		}
		if ended || full || broken != nil {
			return broken
		}
		c.resize(n, time.Since(began))
	}
}

// resize makes chunks large where they flow, and small again where one took its time.
func (c *chunker) resize(sent int, took time.Duration) {
	c.flowing += int64(sent)
	if took > flowsWithin {
		c.flowing = 0
	}
	c.size = chunkSize
	if c.flowing >= flowsAfter && c.downloads.Load() <= largeDownloads {
		c.size = largeChunk
	}
}

// fill reads until data is full or the body has ended; a large chunk goes as it is where the
// bytes do not flow any more. Only a bare io.EOF is an end: an error that wraps one is a body
// that broke off.
func fill(body io.Reader, data []byte) (n int, ended bool, err error) {
	for began := time.Now(); n < len(data) && (n < chunkSize || time.Since(began) < flowsWithin); {
		read, err := body.Read(data[n:])
		n += read
		if err == io.EOF { //nolint:errorlint // see above
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// room is how many bytes the next chunk may carry.
func (c *chunker) room() int64 {
	if c.bounded {
		return min(c.size, c.left)
	}
	return c.size
}

// next says what the next bytes are.
func (c *chunker) next(data mem.Buffer) *easelv1.ContentChunk {
	chunk := &easelv1.ContentChunk{Offset: c.offset, Info: c.info}
	if !c.unsummed {
		chunk.Crc32C = crc32.Checksum(data.ReadOnlyData(), castagnoli)
	}
	c.info = nil
	if c.whole != nil {
		c.whole.add(data)
	}
	c.offset += int64(data.Len())
	c.left -= int64(data.Len())
	return chunk
}

// atEnd reports whether a body of which enough was read is known to have nothing left.
func (c *chunker) atEnd(body io.Reader) bool {
	if c.whole == nil {
		return false
	}
	var one [1]byte
	n, ended, _ := fill(body, one[:])
	return ended && n == 0
}

// noContent says why there are no bytes: the catalog's answer to the content alone does not
// tell a render that is not finished from one that has no file.
func (s *generations) noContent(ctx context.Context, id string, err error) error {
	switch catalog.KindOf(err) {
	case catalog.KindNotFound, catalog.KindContentNotReady, catalog.KindNoContent:
	default:
		return aboutGeneration(err, id)
	}
	update, readErr := s.read(ctx, id)
	if readErr != nil {
		return readErr
	}
	g := update.Generation
	early := catalog.KindOf(err) == catalog.KindContentNotReady && g.State == catalog.StateSucceeded && g.Text == nil
	if !g.State.Terminal() || early {
		return notReady(err)
	}
	info := &errdetails.ErrorInfo{Reason: "NO_CONTENT", Domain: domain, Metadata: map[string]string{"state": states[g.State].String()}}
	return build(codes.FailedPrecondition, "this render has no file, it is "+g.State.String(), info).Err()
}

// notReady keeps what the catalog said of content that will come.
func notReady(err error) error {
	var said *catalog.Error
	errors.As(err, &said) // its kind is known, so it is one
	later := *said
	later.Kind = catalog.KindContentNotReady
	return &later
}

func contentInfo(id string, c *catalog.Content) *easelv1.ContentInfo {
	contentType := c.ContentType
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	return &easelv1.ContentInfo{
		ContentType: clean(contentType), SizeBytes: c.Size, FileName: fileName(id, contentType), Etag: clean(strings.Trim(c.Etag, `"`)),
	}
}

// quoted gives an etag the quotes that HTTP wants around it and the contract leaves out.
func quoted(etag string) string {
	if etag == "" || strings.HasPrefix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}

// extensions are those of the media types that a catalog of renders is likely to serve. The
// tables of the machine are not asked: a name must not depend on where the server runs.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif",
	"image/svg+xml": ".svg", "image/tiff": ".tiff", "image/avif": ".avif",
	"video/mp4": ".mp4", "video/webm": ".webm", "audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/ogg": ".ogg",
	"application/pdf": ".pdf", "application/json": ".json", "application/zip": ".zip", "text/plain": ".txt",
	"model/gltf-binary": ".glb",
}

// fileName makes a name that is safe to create in a directory.
func fileName(id, contentType string) string {
	safe := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	extension, ok := extensions[strings.TrimSpace(media)]
	if !ok {
		extension = ".bin"
	}
	return clip(strings.Map(safe, id), 100) + extension
}
