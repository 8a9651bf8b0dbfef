package catalog

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

func TestDownloadCanStartAtAnyOffset(t *testing.T) {
	hosts := map[string]host{
		"ranges":               {file: film, etag: `"v1"`, cut: -1},
		"no ranges":            {file: film, etag: `"v1"`, cut: -1, noRange: true},
		"no ETag":              {file: film, cut: -1},
		"a weak ETag":          {file: film, etag: `W/"v1"`, cut: -1},
		"no ETag, no ranges":   {file: film, cut: -1, noRange: true},
		"chunks":               {file: film, etag: `"v1"`, cut: -1, chunked: true},
		"chunks and no ranges": {file: film, cut: -1, chunked: true, noRange: true},
		"body ends at close":   {file: film, etag: `"v1"`, cut: -1, closed: true},
	}
	for name, h := range hosts {
		for _, offset := range []int{0, 1, 7, 50_000, 99_999, 100_000} {
			t.Run(fmt.Sprint(name, offset), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &wire{answer: h.answer}
					content, got, err := readContent(t.Context(), w.client(t, Config{}), int64(offset), "")
					if err != nil || !bytes.Equal(got, film[offset:]) {
						t.Fatalf("got %d bytes, %v", len(got), err)
					}
					want := "video/x-film"
					if offset == len(film) && !h.noRange {
						want = "" // at the end of the file, the catalog responds with status 416, without the file's Content-Type
					}
					if content.Offset != int64(offset) || content.ContentType != want || content.Etag != strongEtag(h.etag) {
						t.Errorf("got %+v", content)
					}
					if known := !h.chunked || !h.noRange; known && (content.Size == nil || *content.Size != 100_000) {
						t.Errorf("got %+v, want a size of 100000", content)
					}
				})
			})
		}
	}
}

func TestAnOffsetPastTheEndIsOutOfRange(t *testing.T) {
	for _, h := range []host{{etag: `"v1"`}, {noRange: true}, {chunked: true}, {chunked: true, noRange: true}, {closed: true}} {
		h.file, h.cut = film, -1
		w := &wire{answer: h.answer}
		_, got, err := w.readInVirtualTime(t, 100_001, "")
		if KindOf(err) != KindOutOfRange || len(got) > 0 {
			t.Errorf("noRange %+v: got %d bytes, %v", h.noRange, len(got), err)
		}
	}
	c := newTestClient(t, roundTrip(func(*http.Request) (*http.Response, error) { panic("sent") }))
	if _, err := c.Content(t.Context(), testCredential, "g1", -1, ""); KindOf(err) != KindInvalidInput {
		t.Errorf("got %v", err)
	}
}

func TestEmptyFileIsDownloadedWithoutError(t *testing.T) {
	for _, h := range []host{{}, {chunked: true}, {etag: `"v1"`}} {
		h.cut = -1
		w := &wire{answer: h.answer}
		_, got, err := w.readInVirtualTime(t, 0, "")
		if err != nil || len(got) > 0 {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
}

func TestInterruptedDownloadResumes(t *testing.T) {
	for name, h := range map[string]host{
		"ranges":                {etag: `"v1"`},
		"ranges, chunks":        {etag: `"v1"`, chunked: true},
		"no ranges":             {etag: `"v1"`, noRange: true},
		"no ETag":               {},
		"no ETag, chunks":       {chunked: true},
		"no ETag and no ranges": {noRange: true, chunked: true},
		"body ends at close":    {etag: `"v1"`, closed: true},
	} {
		for _, cut := range []int{0, 1, 8000, 33_333, 99_999} {
			for _, offset := range []int{0, 500} {
				t.Run(fmt.Sprint(name, cut, offset), func(t *testing.T) {
					h.file = film
					cuts := 0
					w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
						if h.cut = -1; n == 0 {
							h.cut, cuts = cut, cuts+1
						}
						h.answer(n, r, conn)
					}}
					_, got, err := w.readInVirtualTime(t, int64(offset), "")
					if err != nil || !bytes.Equal(got, film[offset:]) || cuts != 1 || w.count() < 2 && cut < len(film)-offset {
						t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
					}
				})
			}
		}
	}
}

func TestDownloadResumesAfterManyInterruptions(t *testing.T) {
	w := &wire{answer: host{file: film, etag: `"v1"`, cut: 9000}.answer}
	_, got, err := w.readInVirtualTime(t, 500, "")
	if err != nil || !bytes.Equal(got, film[500:]) || w.count() != 12 {
		t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
	}
	for n, r := range w.requests { // requests after the first must send the etag in If-Range, so that the catalog does not continue with a different file
		want := map[bool]string{true: `"v1"`}[n > 0]
		if r.Header.Get("Range") != fmt.Sprintf("bytes=%d-", 500+9000*n) || r.Header.Get("If-Range") != want {
			t.Errorf("request %d has the headers %v", n, r.Header)
		}
	}
}

func TestDownloadFailsAfterThreeResumesWithoutProgress(t *testing.T) {
	for name, answer := range map[string]func(h host) func(int, *http.Request, net.Conn){
		"the connection is lost": func(host) func(int, *http.Request, net.Conn) {
			return func(int, *http.Request, net.Conn) {}
		},
		"the body is empty": func(h host) func(int, *http.Request, net.Conn) {
			h.cut = 0
			return h.answer
		},
		"the catalog is down": func(host) func(int, *http.Request, net.Conn) {
			return func(_ int, _ *http.Request, conn net.Conn) {
				io.WriteString(conn, "HTTP/1.1 503 No\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n")
			}
		},
		"the rate is limited": func(host) func(int, *http.Request, net.Conn) {
			return func(_ int, _ *http.Request, conn net.Conn) {
				io.WriteString(conn, "HTTP/1.1 429 No\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := host{file: film, etag: `"v1"`, cut: 5000}
				after := answer(h)
				w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
					if n == 0 {
						h.answer(n, r, conn)
					} else {
						after(n, r, conn)
					}
				}}
				start := time.Now()
				_, got, err := readContent(t.Context(), w.client(t, Config{}), 100, "")
				e := asError(t, err)
				if asked := time.Duration(e.Status/400*2) * 3 * time.Second; time.Since(start) < asked || time.Since(start) > asked+time.Second {
					t.Errorf("took %v, although the catalog requested a delay of %v", time.Since(start), asked)
				}
				if e.Kind != KindInterrupted || e.NextOffset != 5100 || len(got) != 5000 || w.count() != 4 || e.Err == nil {
					t.Errorf("got %d bytes in %d requests, %+v", len(got), w.count(), e)
				}
			})
		})
	}
}

func TestOutageStopsDownloadFromResumingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host{file: film, etag: `"v1"`, cut: 5000}
		var c *Client
		w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
			if n == 0 {
				h.answer(n, r, conn)
				return
			}
			for range 4 { // after five consecutive failures, including the interrupted request, no request may be retried
				permit, err := c.Limiter(testCredential.Tenant).Acquire(t.Context(), limiter.Request{})
				if err != nil {
					t.Error(err)
				}
				permit.Release(limiter.Result{Outcome: limiter.Failed})
			}
		}}
		c = w.client(t, Config{})
		_, got, err := readContent(t.Context(), c, 0, "")
		if KindOf(err) != KindInterrupted || len(got) != 5000 || w.count() != 2 {
			t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
		}
	})
}

func TestUnsatisfiableRangeConfirmsEndOfDownload(t *testing.T) {
	for _, contentRange := range []string{"Content-Range: bytes */100000\r\n", ""} {
		w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
			if n > 0 {
				io.WriteString(conn, "HTTP/1.1 416 No\r\nContent-Length: 0\r\n"+contentRange+"\r\n")
				return
			}
			host{file: film, etag: `"v1"`, closed: true, noRange: true, cut: -1}.answer(n, r, conn)
		}}
		_, got, err := w.readInVirtualTime(t, 0, "")
		if err != nil || !bytes.Equal(got, film) || w.count() != 2 {
			t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
		}
	}
}

func TestConnectionCloseAloneDoesNotCompleteDownload(t *testing.T) {
	for _, cut := range []int{0, 1, 50_000, 99_999, -1} {
		w := &wire{answer: host{file: film, closed: true, cut: cut, noRange: true}.answer}
		_, got, err := w.readInVirtualTime(t, 0, "")
		if KindOf(err) != KindInterrupted {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
}
