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

// chunkSize is the maximum number of result bytes in one message.
const chunkSize = 64 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DownloadGeneration streams the bytes of a result.
func (s *generations) DownloadGeneration(req *easelv1.DownloadGenerationRequest, stream grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error {
	content, err := s.Content(stream.Context(), req) // this context is not canceled when a drain starts, because a download may continue until the drain timeout
	if err != nil {
		return err
	}
	out := deadlineSender{stream: stream, timeout: s.cfg.DownloadTimeout}
	return out.content(content, func(chunk *easelv1.ContentChunk) proto.Message {
		return &easelv1.DownloadGenerationResponse{Chunk: chunk}
	})
}

// Content is the result of a generation, opened for reading. Offset and Limit can select a part of the result.
type Content struct {
	Info *easelv1.ContentInfo
	// Body reads the result from Offset. It returns io.EOF only after the last byte. It must be closed after use, but
	// not while a Read is running.
	Body          io.ReadCloser
	Offset, Limit int64 // Offset is the position of the first byte; Limit is the maximum number of bytes, or zero for no maximum

	id    string       // generation ID
	known func() error // function that returns an error if the caller is no longer authorized; may be nil
}

// Content opens the result of a generation. If the request has a wait_timeout and Easel has no copy of the result,
// Content first waits for the generation to finish. The result can be read until ctx is done.
func (s *Service) Content(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*Content, error) {
	id := req.GetGenerationId()
	seen, err := s.visibleOrder(ctx, id)
	if err != nil {
		return nil, err
	}
	if wait := req.GetWaitTimeout().AsDuration(); wait > 0 && !s.cfg.Contents.Has(ctx, id) {
		if _, err := s.await(ctx, id, seen, watch.Terminal, wait); err != nil {
			return nil, err
		}
	}
	return s.openContent(ctx, req)
}

// openContent opens the result of a generation. Unlike Content, it does not wait for the generation to finish.
func (s *Service) openContent(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*Content, error) {
	id := req.GetGenerationId()
	content, err := s.cfg.Contents.Open(ctx, auth.Of(ctx).APIKey, id, req.GetReadOffset(), quoted(req.GetEtag()))
	if err != nil {
		return nil, s.noContent(ctx, id, err)
	}
	return &Content{Info: contentInfo(id, content), Body: content.Body, Offset: req.GetReadOffset(), Limit: req.GetReadLimit(), id: id, known: s.StillKnown(ctx)}, nil
}

// Copy splits the bytes into chunks and passes each chunk to sink. A chunk's data is valid only until sink returns. The
// first chunk also contains c.Info. If the complete result was read, the last chunk also contains the result's size. If
// the caller is no longer authorized, Copy stops with an error.
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
		ended := err == io.EOF //nolint:errorlint // a wrapped io.EOF means that the body was cut off
		if ended && c.isComplete(next) {
			chunk.Summary = &easelv1.ContentSummary{SizeBytes: next}
		}
		if c.known != nil {
			if err := c.known(); err != nil {
				return err
			}
		}
		// If a read fails, the bytes before the failure are still sent, because next_offset in the error is the position
		// after these bytes.
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

// isComplete reports whether the bytes from Offset to end are the complete result. If the size of the result is unknown,
// it may read another byte from Body to find out.
func (c *Content) isComplete(end int64) bool {
	switch {
	case c.Offset > 0:
		return false
	case c.Limit == 0 || end < c.Limit:
		return true
	case c.Info.GetSizeBytes() > 0:
		return end == c.Info.GetSizeBytes()
	}
	n, err := fill(c.Body, make([]byte, 1))
	return n == 0 && err == io.EOF //nolint:errorlint // a wrapped io.EOF means that the body was cut off
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

// summedSink returns a sink that adds checksums to the chunks and then passes them to sink. It is used only for gRPC
// calls, because REST responses have no checksums.
func (c *Content) summedSink(sink func(*easelv1.ContentChunk) error) func(*easelv1.ContentChunk) error {
	digest := sha256.New()
	return func(chunk *easelv1.ContentChunk) error {
		chunk.Crc32C = crc32.Checksum(chunk.GetData(), castagnoli)
		if c.Offset == 0 { // a download from a later offset has no summary, so it needs no digest
			digest.Write(chunk.GetData())
		}
		if chunk.Summary != nil {
			chunk.Summary.Sha256 = hex.EncodeToString(digest.Sum(nil))
		}
		return sink(chunk)
	}
}

// noContent returns the error for a result that could not be opened. It reads the state of the generation, because the
// catalog's response does not show whether the generation is unfinished or has no file.
func (s *Service) noContent(ctx context.Context, id string, err error) error {
	switch catalog.KindOf(err) {
	case catalog.KindNotFound, catalog.KindContentNotReady, catalog.KindNoContent:
	default:
		return aboutGeneration(err, id)
	}
	seen, readErr := s.visibleOrder(ctx, id)
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
	return NewStatus(easelv1.ErrorReason_NO_CONTENT, "this render has no file; its state is "+g.State.String(),
		map[string]string{"state": states[g.State].String()}).Err()
}

// notReady returns a copy of the catalog's error with the kind [catalog.KindContentNotReady].
func notReady(err error) error {
	said, _ := errors.AsType[*catalog.Error](err) // always succeeds, because only a *catalog.Error has a kind
	later := *said
	later.Kind = catalog.KindContentNotReady
	return &later
}

// sources maps content sources to the values of the contract's enum.
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

// quoted puts an etag from a request in quotation marks, as HTTP requires.
func quoted(etag string) string {
	if etag == "" || strings.HasPrefix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}

// extensions maps common media types of results to file extensions. The operating system's table of media types is not
// used, because file names must be the same on every machine.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif",
	"image/svg+xml": ".svg", "image/tiff": ".tiff", "image/avif": ".avif",
	"video/mp4": ".mp4", "video/webm": ".webm", "audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/ogg": ".ogg",
	"application/pdf": ".pdf", "application/json": ".json", "application/zip": ".zip", "text/plain": ".txt",
	"model/gltf-binary": ".glb",
}

// fileName returns a file name that consists of the generation ID and an extension for the media type. It contains no
// characters that are special in a path.
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
