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

// chunkSize is how many bytes of a result one message carries.
const chunkSize = 64 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DownloadGeneration streams the bytes of a result.
func (s *generations) DownloadGeneration(req *easelv1.DownloadGenerationRequest, stream grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error {
	content, err := s.Content(stream.Context(), req) // a drain does not end a download: it may use the time that is left
	if err != nil {
		return err
	}
	out := deadlineSender{stream: stream, timeout: s.cfg.DownloadTimeout}
	return out.content(content, func(chunk *easelv1.ContentChunk) proto.Message {
		return &easelv1.DownloadGenerationResponse{Chunk: chunk}
	})
}

// Content is a result that is open, or a part of it.
type Content struct {
	Info *easelv1.ContentInfo
	// Body is the result from Offset on. It ends with io.EOF only after the last byte. The owner closes
	// it, and not while it is read.
	Body          io.ReadCloser
	Offset, Limit int64 // of the part; a Limit of 0 goes to the end

	id    string       // of the generation
	known func() error // see [auth.Authenticator.StillKnown]; nil if the caller may always continue
}

// Content opens a result, and waits for it first where the request says so. The result is open for as
// long as ctx.
func (s *Service) Content(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*Content, error) {
	id := req.GetGenerationId()
	seen, err := s.see(ctx, id)
	if err != nil {
		return nil, err
	}
	if wait := req.GetWaitTimeout().AsDuration(); wait > 0 && !s.cfg.Contents.Has(ctx, id) {
		if _, err := s.await(ctx, id, seen.exists, watch.Terminal, wait); err != nil {
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
		// Also before an error: what the caller has and next_offset must agree.
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

// fill reads until data is full or the body has ended.
func fill(body io.Reader, data []byte) (n int, err error) {
	for n < len(data) && err == nil {
		var read int
		read, err = body.Read(data[n:])
		n += read
	}
	return n, err
}

// summed puts checksums into chunks, for callers over gRPC.
func (c *Content) summed(sink func(*easelv1.ContentChunk) error) func(*easelv1.ContentChunk) error {
	digest := sha256.New()
	return func(chunk *easelv1.ContentChunk) error {
		chunk.Crc32C = crc32.Checksum(chunk.GetData(), castagnoli)
		if c.Offset == 0 { // else no summary follows
			digest.Write(chunk.GetData())
		}
		if chunk.Summary != nil {
			chunk.Summary.Sha256 = hex.EncodeToString(digest.Sum(nil))
		}
		return sink(chunk)
	}
}

// noContent says why there are no bytes. The catalog's answer to the content is the same for a
// generation that is not finished and for one that has no file.
func (s *Service) noContent(ctx context.Context, id string, err error) error {
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
	return NewStatus(easelv1.ErrorReason_NO_CONTENT, "this render has no file, it is "+g.State.String(),
		map[string]string{"state": states[g.State].String()}).Err()
}

// notReady keeps the catalog's error for content that will come.
func notReady(err error) error {
	said, _ := errors.AsType[*catalog.Error](err) // its kind is known, so it is one
	later := *said
	later.Kind = catalog.KindContentNotReady
	return &later
}

// sources are the places that results come from.
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

// quoted adds the quotes of HTTP to an etag of the contract.
func quoted(etag string) string {
	if etag == "" || strings.HasPrefix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}

// extensions are those of the media types that a catalog of generations is likely to serve. The
// tables of the machine are not used: a name must not depend on the server's machine.
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
