package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/watch"
)

// chunkSize is the number of bytes of a result in one message.
const chunkSize = 64 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DownloadGeneration streams the bytes of a result.
func (s *generations) DownloadGeneration(req *easelv1.DownloadGenerationRequest, stream grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error {
	content, err := s.Content(stream.Context(), req) // a drain does not end a download, which may use the remaining shutdown time
	if err != nil {
		return err
	}
	out := deadlineSender{stream: stream, timeout: s.cfg.DownloadTimeout}
	return out.content(content, func(chunk *easelv1.ContentChunk) proto.Message {
		return &easelv1.DownloadGenerationResponse{Chunk: chunk}
	})
}

// Content is an open result or a part of it.
type Content struct {
	Info *easelv1.ContentInfo
	// Body is the result from Offset on. It returns io.EOF only after the last byte. The owner closes it, but not
	// during a Read.
	Body          io.ReadCloser
	Offset, Limit int64 // byte range of the part; a zero Limit means to the end

	id    string       // generation ID
	known func() error // see [auth.Authenticator.StillKnown]; nil if the caller may always continue
}

// Content opens a result. It first waits for the result if the request asks for it. The result stays open until ctx is
// done.
func (s *Service) Content(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*Content, error) {
	id := req.GetGenerationId()
	seen, err := s.see(ctx, id)
	if err != nil {
		return nil, err
	}
	if wait := req.GetWaitTimeout().AsDuration(); wait > 0 && !s.cfg.Contents.Has(ctx, id) {
		if _, err := s.await(ctx, id, seen, watch.Terminal, wait); err != nil {
			return nil, err
		}
	}
	return s.open(ctx, req)
}

// open opens a result.
func (s *Service) open(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*Content, error) {
	id := req.GetGenerationId()
	content, err := s.cfg.Contents.Open(ctx, auth.Of(ctx).APIKey, id, req.GetReadOffset(), quoted(req.GetEtag()))
	if err != nil {
		return nil, s.noContent(ctx, id, err)
	}
	return &Content{Info: contentInfo(id, content), Body: content.Body, Offset: req.GetReadOffset(), Limit: req.GetReadLimit(), id: id, known: s.StillKnown(ctx)}, nil
}

// Copy passes the bytes to sink, in chunks that are valid until sink returns. The first chunk describes the result. The last chunk
// has its size, if the whole result was read. A caller that may no longer call receives no further chunk.
func (c *Content) Copy(sink func(*easelv1.ContentChunk) error) error {
	body, buffer := io.Reader(c.Body), make([]byte, chunkSize)
	if c.Limit > 0 {
		body = io.LimitReader(body, c.Limit)
	}
	chunk := &easelv1.ContentChunk{Info: c.Info, Offset: c.Offset}
	for {
		n, err := fill(body, buffer)
		data := buffer[:n]
		chunk.Data = data
		next := chunk.Offset + int64(n)
		ended := err == io.EOF //nolint:errorlint // an error that wraps one is a body that broke off
		if ended && c.whole(next) {
			chunk.Summary = &easelv1.ContentSummary{SizeBytes: next}
		}
		if c.known != nil {
			if err := c.known(); err != nil {
				return err
			}
		}
		// Also sent before an error, because the caller's bytes and next_offset must agree.
		if len(data) > 0 || chunk.Info != nil || chunk.Summary != nil {
			if err := sink(chunk); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		if err != nil {
			return aboutGeneration(err, c.id)
		}
		chunk = &easelv1.ContentChunk{Offset: next}
	}
}

// whole reports whether all of the result was read, once the part has ended at end.
func (c *Content) whole(end int64) bool {
	switch {
	case c.Offset > 0:
		return false
	case c.Limit == 0 || end < c.Limit:
		return true
	case c.Info.GetSizeBytes() > 0:
		return end == c.Info.GetSizeBytes()
	}
	n, err := fill(c.Body, make([]byte, 1))
	return n == 0 && err == io.EOF //nolint:errorlint // as above
}

// fill reads until data is full or the body ends.
func fill(body io.Reader, data []byte) (n int, err error) {
	for n < len(data) && err == nil {
		var read int
		read, err = body.Read(data[n:])
		n += read
	}
	return n, err
}

// summed returns a sink that adds checksums to chunks, for callers over gRPC.
func (c *Content) summed(sink func(*easelv1.ContentChunk) error) func(*easelv1.ContentChunk) error {
	digest := sha256.New()
	return func(chunk *easelv1.ContentChunk) error {
		chunk.Crc32C = crc32.Checksum(chunk.GetData(), castagnoli)
		if c.Offset == 0 { // otherwise no summary follows
			digest.Write(chunk.GetData())
		}
		if chunk.Summary != nil {
			chunk.Summary.Sha256 = hex.EncodeToString(digest.Sum(nil))
		}
		return sink(chunk)
	}
}

// noContent returns the reason for missing bytes. The catalog's content response is the same for an unfinished
// generation and for one without a file.
func (s *Service) noContent(ctx context.Context, id string, err error) error {
	switch catalog.KindOf(err) {
	case catalog.KindNotFound, catalog.KindContentNotReady, catalog.KindNoContent:
	default:
		return aboutGeneration(err, id)
	}
	seen, readErr := s.see(ctx, id)
	if readErr != nil {
		return readErr
	}
	update, readErr := s.read(ctx, id, seen)
	if readErr != nil {
		return readErr
	}
	g := update.Generation
	early := catalog.KindOf(err) == catalog.KindContentNotReady && g.State == catalog.StateSucceeded && g.Text == nil
	if !g.State.Terminal() || early {
		return notReady(err)
	}
	return NewStatus(easelv1.ErrorReason_NO_CONTENT, "this render has no file, it is "+g.State.String(),
		map[string]string{"state": states[g.State].String()}).Err()
}

// notReady returns the catalog's error with the kind for a result that is not available yet.
func notReady(err error) error {
	said, _ := errors.AsType[*catalog.Error](err) // always succeeds, because the error has a kind
	later := *said
	later.Kind = catalog.KindContentNotReady
	return &later
}

// sources maps the sources of results to the contract.
var sources = map[content.Source]easelv1.ContentSource{
	content.FromCatalog: easelv1.ContentSource_CONTENT_SOURCE_CATALOG, content.FromCopy: easelv1.ContentSource_CONTENT_SOURCE_COPY,
}

func contentInfo(id string, c *content.Content) *easelv1.ContentInfo {
	contentType := c.ContentType
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	return &easelv1.ContentInfo{
		ContentType: clean(contentType), SizeBytes: c.Size, FileName: fileName(id, contentType), Etag: clean(strings.Trim(c.Etag, `"`)),
		Source: sources[c.Source],
	}
}

// quoted returns an etag of the contract in the quotes of HTTP.
func quoted(etag string) string {
	if etag == "" || strings.HasPrefix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}

// extensions maps media types of likely results to file extensions. The machine's tables are not used, because a name
// must not depend on the server's machine.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif",
	"image/svg+xml": ".svg", "image/tiff": ".tiff", "image/avif": ".avif",
	"video/mp4": ".mp4", "video/webm": ".webm", "audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/ogg": ".ogg",
	"application/pdf": ".pdf", "application/json": ".json", "application/zip": ".zip", "text/plain": ".txt",
	"model/gltf-binary": ".glb",
}

// fileName returns a name that is safe to create in a directory.
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
