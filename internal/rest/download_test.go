package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// file is a result that the test's server sends. The byte at offset n has the value n modulo 251.
type file struct {
	size      int
	unsized   bool // whether the catalog omits the size
	etag      string
	name      string
	mediaType string
	// tail replaces the body after its first tailAt bytes; nil leaves the body unchanged.
	tail io.Reader
	// says is the size that the catalog reports; zero means the correct size.
	says  int
	calls int
}

// tailAt is the offset in the body at which the bytes from the field tail begin.
const tailAt = 2000

func fileBytes(size int) []byte {
	all := make([]byte, size)
	for n := range all {
		all[n] = byte(n % 251)
	}
	return all
}

func (f *file) content(_ context.Context, req *easelv1.DownloadGenerationRequest) (*service.Content, error) {
	f.calls++
	if req.GetReadOffset() > int64(f.size) {
		return nil, service.Fail(easelv1.ErrorReason_READ_OFFSET_OUT_OF_RANGE, "past the end")
	}
	info := &easelv1.ContentInfo{ContentType: f.mediaType, FileName: f.name, Etag: f.etag}
	if !f.unsized {
		info.SizeBytes = proto.Int64(int64(cmp.Or(f.says, f.size)))
	}
	body := io.Reader(bytes.NewReader(fileBytes(f.size)[req.GetReadOffset():]))
	if f.tail != nil {
		body = io.MultiReader(io.LimitReader(body, tailAt), f.tail)
	}
	return &service.Content{Info: info, Body: io.NopCloser(body), Offset: req.GetReadOffset(), Limit: req.GetReadLimit()}, nil
}

func serveFile(t *testing.T, f *file) *servertest.Site {
	studio := servertest.NewStudio()
	studio.OpenContent = f.content
	return serve(t, studio)
}

func TestRangeAndConditionalRequestsFollowHTTPRules(t *testing.T) {
	const size = 5000
	all := fileBytes(size)
	for _, test := range []struct {
		name         string
		headers      []string
		query        string
		unsized      bool
		empty        bool
		code         int
		body         []byte
		contentRange string
		calls        int // expected number of calls of DownloadGeneration; zero means one
	}{
		{name: "no range", code: 200, body: all},
		{name: "a range", headers: []string{"Range: bytes=10-19"}, code: 206, body: all[10:20], contentRange: "bytes 10-19/5000"},
		{name: "one byte", headers: []string{"Range: bytes=0-0"}, code: 206, body: all[:1], contentRange: "bytes 0-0/5000"},
		{name: "a range without an end", headers: []string{"Range: bytes=4000-"}, code: 206, body: all[4000:], contentRange: "bytes 4000-4999/5000"},
		{name: "a range across chunks", headers: []string{"Range: bytes=900-3100"}, code: 206, body: all[900:3101], contentRange: "bytes 900-3100/5000"},
		{name: "a range that ends past the end of the file", headers: []string{"Range: bytes=4990-9999"}, code: 206, body: all[4990:], contentRange: "bytes 4990-4999/5000"},
		{name: "a suffix range", headers: []string{"Range: bytes=-10"}, code: 206, body: all[4990:], contentRange: "bytes 4990-4999/5000", calls: 2},
		{name: "a suffix longer than the file", headers: []string{"Range: bytes=-9999"}, code: 206, body: all, contentRange: "bytes 0-4999/5000", calls: 2},
		{name: "an empty suffix range", headers: []string{"Range: bytes=-0"}, code: 416, contentRange: "bytes */5000"},
		{name: "a range that starts at the end of the file", headers: []string{"Range: bytes=5000-"}, code: 416, contentRange: "bytes */5000"},
		{name: "a range that starts past the end of the file", headers: []string{"Range: bytes=5001-"}, code: 416, contentRange: "bytes */5000", calls: 2},
		{name: "a unit in capitals", headers: []string{"Range: BYTES=0-1"}, code: 206, body: all[:2], contentRange: "bytes 0-1/5000"},
		{name: "several ranges", headers: []string{"Range: bytes=0-1,5-6"}, code: 200, body: all},
		{name: "an unknown unit", headers: []string{"Range: pages=1-2"}, code: 200, body: all},
		{name: "a reversed range", headers: []string{"Range: bytes=9-1"}, code: 200, body: all},
		{name: "a position with a sign", headers: []string{"Range: bytes=+1-2"}, code: 200, body: all},
		{name: "a range without positions", headers: []string{"Range: bytes=-"}, code: 200, body: all},
		{name: "a start that overflows int64", headers: []string{"Range: bytes=99999999999999999999-"}, code: 416, contentRange: "bytes */5000", calls: 2},
		{name: "an end that overflows int64", headers: []string{"Range: bytes=4999-99999999999999999999"}, code: 206, body: all[4999:], contentRange: "bytes 4999-4999/5000"},
		{name: "If-Range with the current ETag", headers: []string{"Range: bytes=1-2", `If-Range: "e1"`}, code: 206, body: all[1:3], contentRange: "bytes 1-2/5000"},
		{name: "If-Range with another ETag", headers: []string{"Range: bytes=1-2", `If-Range: "e0"`}, code: 200, body: all, calls: 2},
		{name: "If-Range with another ETag, range past the end of the file", headers: []string{"Range: bytes=9000-", `If-Range: "e0"`}, code: 200, body: all, calls: 3},
		{name: "If-Range with a date", headers: []string{"Range: bytes=1-2", "If-Range: Wed, 21 Oct 2015 07:28:00 GMT"}, code: 200, body: all, calls: 2},
		{name: "If-Range with a weak ETag", headers: []string{"Range: bytes=1-2", `If-Range: W/"e1"`}, code: 200, body: all, calls: 2},
		{name: "If-None-Match with the current ETag", headers: []string{`If-None-Match: "e1"`}, code: 304},
		{name: "If-None-Match with a list of ETags", headers: []string{`If-None-Match: "e0", W/"e1"`}, code: 304},
		{name: "If-None-Match with a wildcard", headers: []string{"If-None-Match: *"}, code: 304},
		{name: "If-None-Match with the current ETag, and a range", headers: []string{`If-None-Match: "e1"`, "Range: bytes=1-2"}, code: 304},
		{name: "If-None-Match with another ETag", headers: []string{`If-None-Match: "e0"`}, code: 200, body: all},
		{name: "If-Match with the current ETag", headers: []string{`If-Match: "e1"`}, code: 200, body: all},
		{name: "If-Match with another ETag", headers: []string{`If-Match: "e0"`}, code: 412},
		{name: "a query with offset and limit", query: "?readOffset=100&readLimit=50", code: 200, body: all[100:150]},
		{name: "a query with an offset, and a range", query: "?readOffset=100", headers: []string{"Range: bytes=0-1"}, code: 200, body: all[100:]},
		{name: "a range of a file of unknown size", headers: []string{"Range: bytes=1-2"}, unsized: true, code: 200, body: all, calls: 2},
		{name: "a suffix range of a file of unknown size", headers: []string{"Range: bytes=-2"}, unsized: true, code: 200, body: all, calls: 2},
		{name: "an empty file", empty: true, code: 200, body: []byte{}},
		{name: "a range of an empty file", headers: []string{"Range: bytes=0-"}, empty: true, code: 416, contentRange: "bytes */0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &file{size: size, unsized: test.unsized, etag: "e1", name: "g.png", mediaType: "image/png"}
			if test.empty {
				f.size = 0
			}
			s := serveFile(t, f)
			answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g/content"+test.query, "", test.headers...))
			if answer.StatusCode != test.code {
				t.Fatalf("the response is %s, want %d", answer.Status, test.code)
			}
			if test.body != nil && body != string(test.body) {
				t.Errorf("received %d bytes that differ from the expected %d", len(body), len(test.body))
			}
			if got := answer.Header.Get("Content-Range"); got != test.contentRange {
				t.Errorf("Content-Range is %q, want %q", got, test.contentRange)
			}
			if length := answer.ContentLength; test.body != nil && (length != int64(len(test.body))) != test.unsized {
				t.Errorf("Content-Length is %d for a body of %d bytes", length, len(test.body))
			}
			if got := answer.Header.Get("ETag"); test.code < 400 && got != `"e1"` {
				t.Errorf("ETag is %s, want \"e1\"", got)
			}
			if want := max(1, test.calls); f.calls != want {
				t.Errorf("the download took %d calls, want %d", f.calls, want)
			}
		})
	}
}

func TestRangeRequestDoesNotReadBytesAfterRange(t *testing.T) {
	f := &file{size: 5000, tail: servertest.Ending(func() error { t.Error("the bytes after the range are read"); return nil })}
	s := serveFile(t, f)
	answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g/content", "", "Range: bytes=0-1999"))
	if answer.StatusCode != http.StatusPartialContent || body != string(fileBytes(tailAt)) {
		t.Errorf("the response is %s with %d bytes", answer.Status, len(body))
	}
}

func TestDownloadHeadersDescribeFile(t *testing.T) {
	for _, test := range []struct {
		name        string
		file        file
		disposition string
		mediaType   string
		ranges      string
	}{
		{"a picture", file{size: 1, name: "gen_1.png", mediaType: "image/png"}, `attachment; filename=gen_1.png`, "image/png", "bytes"},
		{"a name that is not a token", file{size: 1, name: `a "b".png`, mediaType: "image/png"}, `attachment; filename="a \"b\".png"`, "image/png", "bytes"},
		{"a name that is not ASCII", file{size: 1, name: "bild-ä.png", mediaType: "image/png"}, `attachment; filename*=utf-8''bild-%C3%A4.png`, "image/png", "bytes"},
		{"no name, no type, no size", file{size: 1, unsized: true}, "attachment", "application/octet-stream", "none"},
		{"an invalid type", file{size: 1, mediaType: "picture; x"}, "attachment", "application/octet-stream", "bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serveFile(t, &test.file)
			answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g/content", ""))
			for name, want := range map[string]string{
				"Content-Disposition": test.disposition, "Content-Type": test.mediaType, "Accept-Ranges": test.ranges,
				"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache", "ETag": "",
			} {
				if got := answer.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestHEADOfDownloadReturnsHeadersWithoutBody(t *testing.T) {
	f := &file{size: 5000, etag: "e1", name: "g.png", mediaType: "image/png"}
	s := serveFile(t, f)
	answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodHead, "/v1/generations/g/content", "", "Range: bytes=0-1"))
	if answer.StatusCode != http.StatusOK || answer.ContentLength != 5000 || body != "" || answer.Header.Get("ETag") != `"e1"` {
		t.Errorf("the response is %s with %d bytes of %d, %v", answer.Status, len(body), answer.ContentLength, answer.Header)
	}
}

func TestFailedDownloadAbortsResponse(t *testing.T) {
	cut, changed := service.Fail(easelv1.ErrorReason_CONTENT_INTERRUPTED, "cut"), service.Fail(easelv1.ErrorReason_CONTENT_CHANGED, "other bytes")
	for name, f := range map[string]*file{
		"a read error":                {size: 5000, tail: iotest.ErrReader(cut)},
		"a read error without a size": {size: 5000, tail: iotest.ErrReader(changed), unsized: true},
		"fewer bytes than announced":  {size: 5000, says: 6000},
		"more bytes than announced":   {size: 5000, says: 4000},
		"a panic":                     {size: 5000, tail: servertest.Ending(func() error { panic("broken") })},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveFile(t, f)
			answer, err := s.HTTP.Do(servertest.Request(t, http.MethodGet, "/v1/generations/g/content", ""))
			if err != nil {
				return // the response failed before the first byte
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err == nil {
				t.Errorf("%d bytes were accepted as the complete file", len(body))
			}
		})
	}
}

// endlessBody is a body that returns data until it is closed.
type endlessBody chan struct{}

func (endlessBody) Read(p []byte) (int, error) { return len(p), nil }

func (b endlessBody) Close() error {
	close(b)
	return nil
}

func TestDownloadEndsWhenClientDisconnects(t *testing.T) {
	studio, body := servertest.NewStudio(), make(endlessBody)
	studio.OpenContent = func(context.Context, *easelv1.DownloadGenerationRequest) (*service.Content, error) {
		return &service.Content{Info: &easelv1.ContentInfo{}, Body: body}, nil
	}
	s := serve(t, studio)
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := s.HTTP.Do(servertest.Request(t, http.MethodGet, "/v1/generations/g/content", "").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, answer.Body, 1<<20); err != nil {
		t.Fatal(err)
	}
	cancel()
	answer.Body.Close()
	<-body
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if lines := s.Lines(t, "call"); len(lines) != 1 || lines[0]["code"] != "Canceled" || lines[0]["bytes"].(float64) < 1<<20 {
		t.Errorf("the call is logged as %v, want Canceled and at least 1 MiB", lines)
	}
}

// slowClient delays each chunk, and fails at the second chunk.
type slowClient struct {
	http.ResponseWriter
	takes  time.Duration
	chunks int
}

func (c *slowClient) Write(p []byte) (int, error) {
	time.Sleep(c.takes)
	if c.chunks++; c.chunks == 2 {
		return 0, errors.New("the connection is gone")
	}
	return len(p), nil
}

// The time limit applies to each chunk, not to the complete download. A client is too slow if one chunk takes longer
// than the limit. If the client disconnects earlier, the error's reason is not READER_TOO_SLOW.
func TestDownloadTimeoutAppliesToEachChunk(t *testing.T) {
	const most = service.DefaultDownloadTimeout
	for takes, tooSlow := range map[time.Duration]bool{most * 3 / 4: false, most: true} {
		synctest.Test(t, func(t *testing.T) {
			client := &slowClient{ResponseWriter: httptest.NewRecorder(), takes: takes}
			w := &deadlineWriter{ResponseWriter: client, connection: http.NewResponseController(client), timeout: most}
			n, err := w.Write(make([]byte, 64<<10))
			err = failedWrite(err)
			if n != deadlineChunk || errors.Is(err, context.Canceled) == tooSlow || tooSlow && service.Reason(service.Status(err)) != easelv1.ErrorReason_READER_TOO_SLOW {
				t.Errorf("a client that needs %v for a chunk received %d bytes, and the write returned %v", takes, n, err)
			}
		})
	}
}
