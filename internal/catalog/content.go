package catalog

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// maxResumes is the maximum number of consecutive resumes that yield no new byte.
	maxResumes = 3
	// idleTimeout is the maximum duration of one read from the body of a response.
	idleTimeout = 30 * time.Second
)

// openContent connects b to the catalog, with retries. It returns a Content whose Body is b.
func openContent(ctx context.Context, b *contentBody) (*Content, error) {
	if strongEtag(b.etag) != b.etag {
		return nil, changed("the requested ETag is not a strong ETag")
	}
	if err := b.upstream.retryRequest(ctx, b.cred, b.connect); err != nil {
		return nil, err
	}
	content := &Content{Body: b, ContentType: b.contentType, Offset: b.start, Etag: b.etag}
	if b.size >= 0 {
		content.Size = new(b.size)
	}
	return content, nil
}

// contentBody is the body of a [Content]. If its connection fails, the next Read reconnects and resumes.
type contentBody struct {
	upstream *requester
	ctx      context.Context
	cred     Credential
	id       string

	answered    bool // whether a response has set contentType and etag
	contentType string
	etag        string // strong ETag of the file, which is the same in all responses; empty if unknown
	size        int64  // size of the complete file, or -1 while it is unknown
	start       int64  // offset that the caller requested
	at          int64  // file offset of the next byte that Read returns
	sum         uint32 // checksum of the bytes returned to the caller; computed only if there is no ETag

	stream   *contentStream // nil between connections
	resumes  int            // number of times that the stream was resumed since the last new byte
	attempts int            // total number of attempts to connect
	cause    error          // reason why the last connection ended
	err      error          // error that Read returns; nil until the body has ended
}

// contentStream is the body of one response.
type contentStream struct {
	ctx    context.Context // context of the response; the field cancel cancels it
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	idle   *time.Timer // cancels the response if a read takes longer than idleTimeout
	at     int64       // file offset of the stream's next byte; a new stream starts at or before contentBody.at
	end    int64       // file offset after the last byte of the response, or -1 if unknown
	framed bool        // whether a truncated response can be detected; if so, io.EOF is the end of the file, even if the size is unknown
	sum    uint32      // checksum of the bytes that this stream has read again, starting at contentBody.start
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errBodyClosed = errors.New("catalog: read after close")

// Read implements [io.Reader]. It allocates memory only when it connects.
func (b *contentBody) Read(p []byte) (int, error) {
	for b.err == nil && len(p) > 0 {
		if b.stream != nil {
			if n := b.read(p); n > 0 {
				return n, nil
			}
		} else if err := b.resume(); err != nil {
			b.err = err
		}
	}
	return 0, b.err
}

// Close closes the connection.
func (b *contentBody) Close() error {
	b.disconnect(nil)
	if b.err == nil {
		b.err = errBodyClosed
	}
	return nil
}

// read reads once from the stream, and returns the number of bytes that are new to the caller. If the stream repeats bytes that
// the caller has already received, read only compares them with the earlier bytes.
func (b *contentBody) read(p []byte) int {
	s := b.stream
	delivered := s.at < b.at
	if delivered {
		p = p[:min(int64(len(p)), b.at-s.at)]
	}
	s.idle.Reset(idleTimeout)
	n, err := s.body.Read(p)
	s.idle.Stop()
	switch {
	case s.end >= 0 && s.at+int64(n) > s.end:
		b.endBody(&Error{Kind: KindContract, Op: opContent, Err: errors.New("the response body is longer than the requested range")})
		return 0
	case delivered:
		b.compareBytes(p[:n])
		n = 0
	default:
		s.at += int64(n)
		b.advanceCaller(p[:n])
	}
	if err != nil {
		b.handleEnd(err)
	}
	return n
}

// advanceCaller moves the caller's position past new bytes. If there is no ETag, it also adds the bytes to the checksum.
func (b *contentBody) advanceCaller(p []byte) {
	if len(p) == 0 {
		return
	}
	b.at += int64(len(p))
	b.resumes = 0
	if b.etag == "" {
		b.sum = crc32.Update(b.sum, castagnoli, p)
	}
}

// compareBytes adds p to the stream's checksum. The caller has already received these bytes from an earlier stream. When the
// stream has repeated all received bytes, compareBytes checks whether the file has changed. If it has, compareBytes ends the
// body with an error.
func (b *contentBody) compareBytes(p []byte) {
	s := b.stream
	if from := max(b.start-s.at, 0); from < int64(len(p)) && b.etag == "" {
		s.sum = crc32.Update(s.sum, castagnoli, p[from:])
	}
	s.at += int64(len(p))
	if s.at == b.at && s.sum != b.sum {
		b.endBody(changed("bytes read again differ from the delivered bytes"))
	}
}

// handleEnd handles the end of a stream. At the end of the file, it ends the body with io.EOF. If the file ends before
// the position that the caller has reached, it ends the body with an error. After an interruption, it only disconnects, and the
// next Read resumes.
func (b *contentBody) handleEnd(err error) {
	s := b.stream
	if b.err != nil || s == nil {
		return
	}
	complete := b.size >= 0 && b.at == b.size && s.at == b.at
	if b.size < 0 && s.framed && errors.Is(err, io.EOF) {
		switch {
		case s.at == b.at:
			complete = true
		case b.at == b.start:
			b.endBody(&Error{Kind: KindOutOfRange, Op: opContent})
			return
		default:
			b.endBody(changed("the file has become shorter"))
			return
		}
	}
	if complete {
		b.endBody(io.EOF)
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if cause := context.Cause(s.ctx); cause != nil {
		err = cause
	}
	b.disconnect(err)
}

// endBody closes the connection, and makes all further reads return err.
func (b *contentBody) endBody(err error) {
	b.disconnect(err)
	b.err = err
}

// disconnect closes the connection and records the cause.
func (b *contentBody) disconnect(cause error) {
	if b.stream == nil {
		return
	}
	b.stream.cancel(context.Canceled)
	b.stream.idle.Stop()
	b.stream.body.Close()
	b.stream, b.cause = nil, cause
}

// resume reconnects at the caller's position, after a delay. It returns an error if maxResumes consecutive resumes have
// yielded no new byte.
func (b *contentBody) resume() error {
	for {
		if err := contextError(b.ctx); err != nil {
			return err
		}
		if b.resumes++; b.resumes > maxResumes {
			return b.interrupted()
		}
		wait, ok := b.upstream.retryDelay(b.ctx, b.resumes, b.cause)
		if !ok {
			return b.interrupted()
		}
		if err := sleep(b.ctx, wait); err != nil {
			return err
		}
		err := b.connect(b.ctx)
		if err == nil {
			return nil
		}
		if kind := KindOf(err); kind != KindUnavailable && kind != KindBusy && kind != KindRateLimited {
			return err
		}
		if b.cause = err; !b.upstream.limiter(b.cred.Tenant).MayRetry() {
			return b.interrupted()
		}
	}
}

func (b *contentBody) interrupted() error {
	e := &Error{Kind: KindInterrupted, Op: opContent, NextOffset: b.at, Err: b.cause}
	if last, ok := errors.AsType[*Error](b.cause); ok {
		e.Status, e.RetryAfter = last.Status, last.RetryAfter
	}
	return e
}

func changed(why string) error {
	return &Error{Kind: KindContentChanged, Op: opContent, Err: errors.New(why)}
}

// connect requests the rest of the file, and checks that the response belongs to the same file.
func (b *contentBody) connect(ctx context.Context) error {
	from := b.at
	if b.etag == "" {
		from = b.start // without an ETag, the bytes that were already delivered are read again, to check that they have not changed
	}
	// The request has a Range header even if it asks for the complete file. The response then contains the size in both
	// Content-Range and Content-Length, so a wrong Content-Length is detected.
	header := http.Header{"Accept": {"*/*"}, "Range": {"bytes=" + strconv.FormatInt(from, 10) + "-"}}
	if b.etag != "" {
		header.Set("If-Range", b.etag)
	}
	permit, err := b.upstream.acquire(ctx, b.cred, opContent)
	if err != nil {
		return err
	}
	b.attempts++
	timed, cancel := context.WithCancelCause(withAttempt(ctx, b.attempts))
	timer := time.AfterFunc(b.upstream.timeout, func() { cancel(errNoAnswer) })
	resp, _, err := b.upstream.sendRequest(timed, b.ctx, permit, b.cred, &request{op: opContent, id: b.id, header: header})
	timer.Stop()
	if err != nil {
		cancel(err)
		return err
	}
	b.upstream.release(permit, b.cred, nil) // a download may take long but needs little memory, so it does not hold the permit
	s := &contentStream{ctx: timed, body: resp.Body, cancel: cancel, idle: timer}
	if err := b.acceptResponse(s, resp, from); err != nil {
		cancel(err)
		resp.Body.Close()
		return err
	}
	if b.stream = s; b.size >= 0 && b.at == b.size {
		b.endBody(io.EOF)
	}
	return nil
}

// acceptResponse checks the response to a request for the file from the given offset. It records the type, size and ETag of the
// file, and returns an error if the file has changed.
func (b *contentBody) acceptResponse(s *contentStream, resp *http.Response, from int64) error {
	total, err := b.readRange(s, resp, from)
	if err != nil {
		return err
	}
	etag := strongEtag(resp.Header.Get("ETag"))
	tellsBytes := resp.StatusCode != http.StatusRequestedRangeNotSatisfiable || etag != ""
	switch {
	case b.etag != "" && tellsBytes && etag != b.etag:
		return changed("the ETag is " + strconv.Quote(etag))
	case b.size >= 0 && total >= 0 && total != b.size:
		return changed("the size is " + strconv.FormatInt(total, 10))
	case total >= 0 && b.at > total && b.at > b.start:
		return changed("the file has become shorter")
	case total >= 0 && b.at > total:
		return &Error{Kind: KindOutOfRange, Op: opContent, Status: resp.StatusCode}
	}
	if !b.answered {
		b.answered, b.etag = true, cmp.Or(etag, b.etag)
		if resp.StatusCode/100 == 2 { // the Content-Type of a 416 describes the error body, not the file
			b.contentType = resp.Header.Get("Content-Type")
		}
	}
	if total >= 0 {
		b.size = total
	}
	return nil
}

// readRange stores the range of a response in s. It returns the size of the complete file, or -1 if the size is unknown.
func (b *contentBody) readRange(s *contentStream, resp *http.Response, from int64) (total int64, err error) {
	broken := func(kind Kind, why string) (int64, error) {
		return -1, &Error{Kind: kind, Op: opContent, Status: resp.StatusCode, Message: why}
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return broken(KindContract, "unrequested content encoding")
	}
	switch resp.StatusCode {
	case http.StatusOK:
		s.end, s.framed = resp.ContentLength, isFramed(resp)
		return resp.ContentLength, nil
	case http.StatusPartialContent:
		first, last, total, ok := parseContentRange(resp.Header.Get("Content-Range"))
		if !ok || first != from {
			return broken(KindContract, "returned range differs from the requested one")
		}
		s.at, s.end = first, last+1
		return total, nil
	case http.StatusRequestedRangeNotSatisfiable:
		total, ok := parseUnsatisfied(resp.Header.Get("Content-Range"))
		if !ok && from == b.at && b.at > b.start { // the bytes before b.at were delivered, and no byte follows them, so b.at is the size
			total, ok = b.at, true
		}
		if !ok || total > from {
			return broken(KindOutOfRange, "")
		}
		return total, nil
	case http.StatusAccepted:
		return broken(KindContentNotReady, "")
	case http.StatusNoContent, http.StatusResetContent:
		return broken(KindNoContent, "the catalog has no file")
	}
	return broken(KindContract, "response is neither the file nor a range of it")
}
