package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// download serves the bytes of a result as a plain file, with ranges and etags. It is
// the gRPC call underneath; a part is a call with an offset and a limit.
//
// The query parameters readOffset and readLimit name a part too. Then that part is
// the whole file as far as HTTP goes, and a Range header is ignored.
func (g *gateway) download(w http.ResponseWriter, r *http.Request, params map[string]string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ctx, err := g.annotate(ctx, r, easelv1.GenerationService_DownloadGeneration_FullMethodName, contentPath)
	if err != nil {
		refuse(w, r, err)
		return
	}
	req := &easelv1.DownloadGenerationRequest{GenerationId: params["generation_id"]}
	if err := query(r, req, "generation_id"); err != nil {
		refuse(w, r, err)
		return
	}
	answer, err := g.plan(ctx, r, req)
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer answer.body.close()
	allowPauses(w)
	answer.writeHeader(w)
	if answer.code >= http.StatusMultipleChoices || r.Method == http.MethodHead {
		return
	}
	if err := answer.writeBody(w); err != nil {
		// The headers are out; only a broken connection tells the client now.
		trace.SpanFromContext(ctx).SetStatus(codes.Error, "the content broke off")
		panic(http.ErrAbortHandler)
	}
}

// fileAnswer is what a request for a file is answered with.
type fileAnswer struct {
	code   int
	info   *easelv1.ContentInfo
	part   byteRange // of the file, where code is 206
	length int64     // bytes to be sent; or unbounded
	body   *contentStream
}

// plan makes the calls that a request needs, usually one, up to the first chunk.
func (g *gateway) plan(ctx context.Context, r *http.Request, req *easelv1.DownloadGenerationRequest) (fileAnswer, error) {
	window := req.GetReadOffset() != 0 || req.GetReadLimit() != 0
	want, ranged := parseRange(r.Header.Get("Range"))
	if window || r.Method == http.MethodHead {
		ranged = false
	}
	if ranged {
		answer, served, err := g.planRange(ctx, r, req, want)
		if served || err != nil {
			return answer, err
		}
	}
	if r.Method == http.MethodHead && !window {
		req.ReadLimit = 1 // the first chunk says all there is to say
	}
	body, err := g.openContent(ctx, req)
	if err != nil {
		return fileAnswer{}, err
	}
	answer := fileAnswer{code: http.StatusOK, info: body.info, length: unbounded, body: body}
	if body.info.SizeBytes != nil {
		answer.length = max(0, body.info.GetSizeBytes()-req.GetReadOffset())
		if limit := req.GetReadLimit(); window && limit > 0 {
			answer.length = min(answer.length, limit)
		}
	}
	return answer, answer.precondition(r)
}

// planRange answers with a part. It reports false where the whole is to be sent: the
// client has other bytes, or the size is not known, without which HTTP can't say
// which part it is.
func (g *gateway) planRange(ctx context.Context, r *http.Request, req *easelv1.DownloadGenerationRequest, want byteRange) (fileAnswer, bool, error) {
	part := &easelv1.DownloadGenerationRequest{
		GenerationId: req.GetGenerationId(), Etag: req.GetEtag(), WaitTimeout: req.GetWaitTimeout(),
		ReadOffset: want.first,
	}
	switch {
	case want.suffix: // where it begins is known once the size is
		part.ReadOffset, part.ReadLimit = 0, 1
	case want.last != unbounded:
		part.ReadLimit = want.length()
	}
	body, err := g.openContent(ctx, part)
	if err != nil {
		// With If-Range the offset may be one of a longer file than there is now.
		if status.Code(err) == grpccodes.OutOfRange && r.Header.Get("If-Range") != "" {
			return fileAnswer{}, false, nil
		}
		return fileAnswer{}, false, err
	}
	answer := fileAnswer{code: http.StatusPartialContent, info: body.info, body: body}
	if err := answer.precondition(r); err != nil || answer.code == http.StatusNotModified {
		return answer, true, err
	}
	if body.info.SizeBytes == nil || !sameFile(r.Header.Get("If-Range"), body.info) {
		body.close()
		return fileAnswer{}, false, nil
	}
	size := body.info.GetSizeBytes()
	answer.part, err = want.fit(size)
	if err == nil && want.suffix {
		body.close()
		part.ReadOffset, part.ReadLimit, part.Etag = answer.part.first, 0, body.info.GetEtag()
		answer.body, err = g.openContent(ctx, part)
	}
	if err != nil {
		body.close()
		return fileAnswer{}, false, err
	}
	answer.length = answer.part.length()
	return answer, true, nil
}

// fit is within as an error that knows the size.
func (r byteRange) fit(size int64) (byteRange, error) {
	part, ok := r.within(size)
	if ok {
		return part, nil
	}
	st, err := status.New(grpccodes.OutOfRange, "no byte of the file lies in the range").WithDetails(&errdetails.ErrorInfo{
		Domain: errorDomain, Reason: reasonRange,
		Metadata: map[string]string{"size_bytes": strconv.FormatInt(size, 10)},
	})
	if err != nil {
		return part, err
	}
	return part, st.Err()
}

// sameFile reports whether If-Range names the file that there is. A date never does:
// files here have none.
func sameFile(ifRange string, info *easelv1.ContentInfo) bool {
	return ifRange == "" || (info.GetEtag() != "" && ifRange == quoteEtag(info.GetEtag()))
}

// precondition applies If-Match and If-None-Match.
func (a *fileAnswer) precondition(r *http.Request) error {
	quoted := quoteEtag(a.info.GetEtag())
	if match := r.Header.Get("If-Match"); match != "" && !listsEtag(match, quoted, false) {
		a.body.close()
		return refusal(grpccodes.FailedPrecondition, reasonPrecondition, "the file is not the one that If-Match names")
	}
	if none := r.Header.Get("If-None-Match"); none != "" && listsEtag(none, quoted, true) {
		a.code = http.StatusNotModified
	}
	return nil
}

func (a *fileAnswer) writeHeader(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Cache-Control", "private, no-cache") // it may be kept, but not used unasked
	if quoted := quoteEtag(a.info.GetEtag()); quoted != "" {
		header.Set("ETag", quoted)
	}
	if a.code == http.StatusNotModified {
		w.WriteHeader(a.code)
		return
	}
	header.Set("Content-Type", contentType(a.info.GetContentType()))
	header.Set("Content-Disposition", disposition(a.info.GetFileName()))
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Accept-Ranges", "none")
	if a.info.SizeBytes != nil {
		header.Set("Accept-Ranges", "bytes")
	}
	if a.length != unbounded {
		header.Set("Content-Length", strconv.FormatInt(a.length, 10))
	}
	if a.code == http.StatusPartialContent {
		header.Set("Content-Range", a.part.contentRange(a.info.GetSizeBytes()))
	}
	w.WriteHeader(a.code)
}

// writeBody copies chunk by chunk, and fails unless every byte went out.
func (a *fileAnswer) writeBody(w io.Writer) error {
	var sent int64
	for {
		data, err := a.body.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if sent += int64(len(data)); a.length != unbounded && sent > a.length {
			return errors.New("more bytes than were announced")
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if a.length != unbounded && sent != a.length {
		return errors.New("fewer bytes than were announced")
	}
	return nil
}

// contentType is the catalog's media type where it is one.
func contentType(media string) string {
	if _, _, err := mime.ParseMediaType(media); err != nil {
		return "application/octet-stream"
	}
	return media
}

// disposition makes a browser save the file, and never show what may be a page.
func disposition(fileName string) string {
	if named := mime.FormatMediaType("attachment", map[string]string{"filename": fileName}); fileName != "" && named != "" {
		return named
	}
	return "attachment"
}
