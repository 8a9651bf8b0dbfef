package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

const downloadMethod = easelv1.GenerationService_DownloadGeneration_FullMethodName

// openContent opens the result of a generation.
type openContent func(context.Context, *easelv1.DownloadGenerationRequest) (*service.Content, error)

// downloads serves results as files. Their bytes do not pass through the in-memory connection.
type downloads struct {
	mux     *runtime.ServeMux
	calls   Calls // runs calls through the server's chain of processing steps
	content openContent
}

// serve serves a result as a plain file, with ranges and ETags. The request runs through the server's chain of
// processing steps, like any other call. The bytes are copied directly from the service to the response.
//
// The query parameters readOffset and readLimit can select a part of the result. That part is then served as if it were the
// complete file, and a Range header is ignored.
func (d downloads) serve(w http.ResponseWriter, r *http.Request, params map[string]string) {
	req := &easelv1.DownloadGenerationRequest{GenerationId: params["generation_id"]}
	a := &fileAnswer{open: d.content, request: r, code: http.StatusOK, length: unbounded}
	ctx, err := annotate(r.Context(), d.mux, r, downloadMethod, contentPath)
	if err == nil {
		err = decodeQuery(r, req, "generation_id")
	}
	if err == nil {
		err = d.calls.Call(ctx, downloadMethod, req, func(ctx context.Context, sent func(bytes int)) error { return a.serve(ctx, w, req, sent) })
	}
	switch {
	case err == nil:
	case !a.begun:
		writeRefusal(w, r, err)
	default:
		// The headers were already sent. Only an aborted connection can now report the error to the client.
		trace.SpanFromContext(ctx).SetStatus(codes.Error, "the content was cut off")
		panic(http.ErrAbortHandler)
	}
}

// fileAnswer is the response to a request for a result as a file.
type fileAnswer struct {
	open    openContent
	request *http.Request
	content *service.Content // opened result; nil if none is open

	code   int
	part   byteRange // part of the file that is sent if code is 206
	length int64     // number of bytes to send; equal to unbounded if unknown
	begun  bool      // whether the headers were sent, so that the status can no longer change
}

// serve handles a DownloadGeneration call. [Calls] runs it instead of the gRPC server's handler.
func (a *fileAnswer) serve(ctx context.Context, w http.ResponseWriter, req *easelv1.DownloadGenerationRequest, countBytes func(bytes int)) error {
	defer a.close()
	if err := a.openPart(ctx, req); err != nil {
		return err
	}
	allowPauses(w)
	a.begun = true
	a.writeHeader(w)
	if a.code >= http.StatusMultipleChoices || a.request.Method == http.MethodHead {
		return nil
	}
	return a.writeBody(w, countBytes)
}

// reopen opens the result, or the part of it, that req selects. If a result is already open, reopen closes it first.
func (a *fileAnswer) reopen(ctx context.Context, req *easelv1.DownloadGenerationRequest) (err error) {
	a.close()
	a.content, err = a.open(ctx, req)
	return err
}

func (a *fileAnswer) close() {
	if a.content != nil {
		_ = a.content.Body.Close() // the error can be ignored, because the content was only read
	}
	a.content = nil
}

// openPart opens the requested part, and sets the status code and the length of the response. For some Range headers, it must
// open the result more than once.
func (a *fileAnswer) openPart(ctx context.Context, req *easelv1.DownloadGenerationRequest) error {
	window := req.GetReadOffset() != 0 || req.GetReadLimit() != 0
	if want, ranged := parseRange(a.request.Header.Get("Range")); ranged && !window && a.request.Method != http.MethodHead {
		if planned, err := a.planRange(ctx, req, want); planned || err != nil {
			return err
		}
	}
	if err := a.reopen(ctx, req); err != nil {
		return err
	}
	if size := a.content.Info.SizeBytes; size != nil {
		a.length = max(0, *size-req.GetReadOffset())
		if limit := req.GetReadLimit(); limit > 0 {
			a.length = min(a.length, limit)
		}
	}
	return a.precondition()
}

// planRange opens the part that a Range header requests. isPlanned is false if the complete file must be sent instead: either
// If-Range names another version of the file, or the range can't be checked because the file's size is unknown.
func (a *fileAnswer) planRange(ctx context.Context, req *easelv1.DownloadGenerationRequest, want byteRange) (isPlanned bool, err error) {
	ifRange := a.request.Header.Get("If-Range")
	part := proto.CloneOf(req)
	if !want.suffix { // the position of a suffix depends on the file size, which is not known yet
		part.ReadOffset = want.first
	}
	err = a.reopen(ctx, part)
	if service.Status(err).Code() == grpccodes.OutOfRange {
		err = a.reopen(ctx, req) // reads from the start, because a range error must report the size, and If-Range may require the complete file
	}
	if err != nil {
		return false, err
	}
	if err := a.precondition(); err != nil || a.code == http.StatusNotModified {
		return true, err
	}
	info := a.content.Info
	if info.SizeBytes == nil || !sameFile(ifRange, info) {
		return false, nil
	}
	if a.part, err = want.fit(info.GetSizeBytes()); err != nil {
		return false, err
	}
	if want.suffix {
		part.ReadOffset, part.Etag = a.part.first, info.GetEtag()
		if err := a.reopen(ctx, part); err != nil {
			return false, err
		}
	}
	a.code, a.length = http.StatusPartialContent, a.part.length()
	a.content.Limit = a.length
	return true, nil
}

// fit is like [byteRange.resolve], but returns an error with the file's size if the range selects no byte.
func (r byteRange) fit(size int64) (byteRange, error) {
	part, ok := r.resolve(size)
	if ok {
		return part, nil
	}
	return part, service.NewStatus(easelv1.ErrorReason_READ_OFFSET_OUT_OF_RANGE, "the requested range contains no byte of the file",
		map[string]string{"size_bytes": strconv.FormatInt(size, 10)}).Err()
}

// sameFile reports whether If-Range names the current file. A date never matches, because results have no modification date.
func sameFile(ifRange string, info *easelv1.ContentInfo) bool {
	return ifRange == "" || (info.GetEtag() != "" && ifRange == quoteEtag(info.GetEtag()))
}

// precondition evaluates If-Match and If-None-Match. It returns an error if If-Match does not contain the file's ETag, and sets
// the status code to 304 if If-None-Match contains it.
func (a *fileAnswer) precondition() error {
	header, quoted := a.request.Header, quoteEtag(a.content.Info.GetEtag())
	if match := header.Get("If-Match"); match != "" && !listsEtag(match, quoted, false) {
		return service.Fail(easelv1.ErrorReason_PRECONDITION_FAILED, "the ETag of the file does not match If-Match")
	}
	if none := header.Get("If-None-Match"); none != "" && listsEtag(none, quoted, true) {
		a.code = http.StatusNotModified
	}
	return nil
}

func (a *fileAnswer) writeHeader(w http.ResponseWriter) {
	header, info := w.Header(), a.content.Info
	header.Set("Cache-Control", "private, no-cache") // may be cached, but must be revalidated
	if quoted := quoteEtag(info.GetEtag()); quoted != "" {
		header.Set("ETag", quoted)
	}
	if a.code == http.StatusNotModified {
		w.WriteHeader(a.code)
		return
	}
	header.Set("Content-Type", contentType(info.GetContentType()))
	header.Set("Content-Disposition", disposition(info.GetFileName()))
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Easel-Content-Source", sourceNames[info.GetSource()])
	header.Set("Accept-Ranges", "none")
	if info.SizeBytes != nil {
		header.Set("Accept-Ranges", "bytes")
	}
	if a.length != unbounded {
		header.Set("Content-Length", strconv.FormatInt(a.length, 10))
	}
	if a.code == http.StatusPartialContent {
		header.Set("Content-Range", a.part.contentRange(info.GetSizeBytes()))
	}
	w.WriteHeader(a.code)
}

// sourceNames maps the sources of a result to values of the header Easel-Content-Source.
var sourceNames = map[easelv1.ContentSource]string{easelv1.ContentSource_CONTENT_SOURCE_CATALOG: "catalog", easelv1.ContentSource_CONTENT_SOURCE_COPY: "copy"}

// writeBody copies the bytes of the result to w. After each chunk, it passes the size of the chunk to countBytes. It returns an
// error if a read or write fails, or if the length is known and the number of bytes differs from it.
func (a *fileAnswer) writeBody(w io.Writer, countBytes func(bytes int)) error {
	var written int64
	err := a.content.Copy(func(chunk *easelv1.ContentChunk) error {
		if written += int64(len(chunk.GetData())); a.length != unbounded && written > a.length {
			return errors.New("result has more bytes than Content-Length")
		}
		if _, err := w.Write(chunk.GetData()); err != nil {
			return failedWrite(err)
		}
		countBytes(len(chunk.GetData()))
		return nil
	})
	if err == nil && a.length != unbounded && written != a.length {
		err = errors.New("result has fewer bytes than Content-Length")
	}
	return err
}

// failedWrite converts an error from a write to the client to the error that the download returns.
func failedWrite(err error) error {
	if !errors.Is(err, errNotRead) {
		return context.Canceled // the client disconnected
	}
	return service.Fail(easelv1.ErrorReason_READER_TOO_SLOW, fmt.Sprintf("the client read nothing for %v; download again and read faster", service.DefaultDownloadTimeout))
}

// contentType returns media if it is a valid media type. Otherwise, it returns application/octet-stream.
func contentType(media string) string {
	if _, _, err := mime.ParseMediaType(media); err != nil {
		return "application/octet-stream"
	}
	return media
}

// disposition returns the value of a Content-Disposition header that makes a browser save the file instead of showing it as a
// page.
func disposition(fileName string) string {
	if named := mime.FormatMediaType("attachment", map[string]string{"filename": fileName}); fileName != "" && named != "" {
		return named
	}
	return "attachment"
}

// byteRange is a part of a file, as requested by a Range header.
type byteRange struct {
	first int64 // position of the first byte; if suffix is true, the number of bytes
	last  int64 // position of the last byte; unbounded means the end of the file
	// suffix means that the range consists of the last bytes of the file. The field first is then the number of these bytes.
	suffix bool
}

// unbounded means that a length is unknown, or that a range extends to the end of the file.
const unbounded = -1

// parseRange parses a Range header. Only one range of bytes is supported. For a header with several ranges, another unit or
// invalid syntax, ok is false. The header must then be ignored, and the complete file must be sent, as RFC 9110 allows.
func parseRange(header string) (r byteRange, ok bool) {
	spec, ok := cutPrefixFold(header, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		return r, false
	}
	from, to, ok := strings.Cut(textproto.TrimString(spec), "-")
	if !ok {
		return r, false
	}
	if from == "" {
		r.first, ok = parsePosition(to)
		return byteRange{first: r.first, last: unbounded, suffix: true}, ok
	}
	if r.first, ok = parsePosition(from); !ok {
		return r, false
	}
	if to == "" {
		return byteRange{first: r.first, last: unbounded}, true
	}
	r.last, ok = parsePosition(to)
	return r, ok && r.last >= r.first
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}

// parsePosition parses a byte position, and reports whether it is a number. If the number is too large for an int64, it returns
// the maximum int64.
func parsePosition(digits string) (int64, bool) {
	n, err := strconv.ParseUint(digits, 10, 63)
	return int64(n), err == nil || errors.Is(err, strconv.ErrRange)
}

// resolve returns the range of bytes that r selects in a file of the given size, as the positions of its first and last byte.
// It returns false if r selects no byte.
func (r byteRange) resolve(size int64) (byteRange, bool) {
	if r.suffix {
		r = byteRange{first: max(0, size-r.first), last: unbounded}
	}
	if r.last == unbounded || r.last >= size {
		r.last = size - 1
	}
	return r, r.first <= r.last
}

func (r byteRange) length() int64 { return r.last - r.first + 1 }

func (r byteRange) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.first, r.last, size)
}

// quoteEtag returns an ETag in HTTP syntax, or "" if the ETag is empty. It escapes characters that are not allowed between the
// quotes. It also escapes percent signs, so that different ETags remain different, and commas, so that a list can be split at
// its commas.
func quoteEtag(etag string) string {
	if etag == "" {
		return ""
	}
	var b strings.Builder
	b.WriteByte('"')
	for n := range len(etag) {
		if c := etag[n]; c <= ' ' || c == '"' || c == '%' || c == ',' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// listsEtag reports whether the value of If-Match or If-None-Match contains the given quoted ETag or is "*". If allowsWeak is
// true, a weak ETag in the header matches too.
func listsEtag(header, quoted string, allowsWeak bool) bool {
	if textproto.TrimString(header) == "*" {
		return true
	}
	for part := range strings.SplitSeq(header, ",") { // an ETag contains no comma, because quoteEtag escapes commas
		part = textproto.TrimString(part)
		if allowsWeak {
			part = strings.TrimPrefix(part, "W/")
		}
		if quoted != "" && part == quoted {
			return true
		}
	}
	return false
}
