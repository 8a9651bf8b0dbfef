package catalog

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestChangedFileIsDetectedWhenDownloadResumes(t *testing.T) {
	for name, c := range map[string]struct {
		first, then host
		want        Kind
	}{
		"another ETag":                  {host{file: film, etag: `"v1"`}, host{file: otherFilm, etag: `"v2"`}, KindContentChanged},
		"another ETag, no ranges":       {host{file: film, etag: `"v1"`}, host{file: otherFilm, etag: `"v2"`, noRange: true}, KindContentChanged},
		"no ETag on resume":             {host{file: film, etag: `"v1"`}, host{file: otherFilm}, KindContentChanged},
		"weak ETag on resume":           {host{file: film, etag: `"v1"`}, host{file: otherFilm, etag: `W/"v1"`}, KindContentChanged},
		"no ETag at all":                {host{file: film}, host{file: otherFilm}, KindContentChanged},
		"no ETag, chunks":               {host{file: film, chunked: true}, host{file: otherFilm, chunked: true}, KindContentChanged},
		"a shorter file":                {host{file: film, etag: `"v1"`}, host{file: film[:70_000], etag: `"v1"`}, KindContentChanged},
		"a longer file":                 {host{file: film[:70_000], etag: `"v1"`}, host{file: film, etag: `"v1"`}, KindContentChanged},
		"much shorter":                  {host{file: film, etag: `"v1"`}, host{file: film[:100], etag: `"v1"`}, KindContentChanged},
		"much shorter, no ETag":         {host{file: film}, host{file: film[:100]}, KindContentChanged},
		"much shorter in chunks":        {host{file: film, chunked: true}, host{file: film[:100], chunked: true}, KindContentChanged},
		"an empty file":                 {host{file: film, chunked: true}, host{chunked: true}, KindContentChanged},
		"same file, chunked, no ranges": {host{file: film}, host{file: film, chunked: true, noRange: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.first.cut, c.then.cut = 33_000, -1
			w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
				if n == 0 {
					c.first.answer(n, r, conn)
				} else {
					c.then.answer(n, r, conn)
				}
			}}
			_, got, err := w.readInVirtualTime(t, 0, "")
			if KindOf(err) != c.want || w.count() < 2 {
				t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
			}
			sameOrError(t, c.first.file, got, err)
		})
	}
}

func TestDownloadRecoversFromWrongContentLength(t *testing.T) {
	for _, delta := range []int{-99_000, -1, 1, 1000} {
		w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
			if n > 0 {
				host{file: film, etag: `"v1"`, cut: -1}.answer(n, r, conn)
				return
			}
			fmt.Fprintf(conn, "HTTP/1.1 206 P\r\nETag: \"v1\"\r\nContent-Range: bytes 0-99999/100000\r\nContent-Length: %d\r\n\r\n", len(film)+delta)
			conn.Write(film[:len(film)+min(delta, 0)])
		}}
		_, got, err := w.readInVirtualTime(t, 0, "")
		if err != nil || !bytes.Equal(got, film) {
			t.Errorf("%d: got %d bytes in %d requests, %v", delta, len(got), w.count(), err)
		}
	}
}

func TestDownloadWithDifferentEtagIsRejected(t *testing.T) {
	for etag, want := range map[string]Kind{`"v1"`: 0, `"v2"`: KindContentChanged, `W/"v1"`: KindContentChanged, "v1": KindContentChanged, "\"v\r\n1\"": KindContentChanged} {
		for _, offset := range []int64{0, 10} {
			for _, noRange := range []bool{false, true} {
				w := &wire{answer: host{file: film, etag: `"v1"`, noRange: noRange, cut: -1}.answer}
				_, got, err := w.readInVirtualTime(t, offset, etag)
				if KindOf(err) != want {
					t.Errorf("%q from %d: got %d bytes, %v", etag, offset, len(got), err)
				}
			}
		}
	}
	w := &wire{answer: host{file: film, cut: -1}.answer}
	if _, _, err := w.readInVirtualTime(t, 0, `"v1"`); KindOf(err) != KindContentChanged {
		t.Errorf("response without an ETag: got %v", err)
	}
}

func TestContentRangeIsCheckedAgainstRequestedRange(t *testing.T) {
	for name, c := range map[string]struct {
		head   string
		body   []byte
		offset int64
		want   Kind
	}{
		"unrequested range, whole file":   {"Content-Range: bytes 0-99999/100000", film, 0, 0},
		"unrequested range, partial file": {"Content-Range: bytes 5-9/100000", film[5:10], 0, KindContract},
		"different start":                 {"Content-Range: bytes 0-99999/100000", film, 10, KindContract},
		"no Content-Range":                {"X-A: b", film[10:], 10, KindContract},
		"unknown total size":              {"Content-Range: bytes 10-99999/*", film[10:], 10, KindContract},
		"unit other than bytes":           {"Content-Range: pages 10-99999/100000", film[10:], 10, KindContract},
		"end beyond the total size":       {"Content-Range: bytes 10-100000/100000", film[10:], 10, KindContract},
		"end before the start":            {"Content-Range: bytes 10-5/100000", film[10:], 10, KindContract},
		"negative":                        {"Content-Range: bytes -10-99999/100000", film[10:], 10, KindContract},
		"huge":                            {"Content-Range: bytes 10-99999/99999999999999999999", film[10:], 10, KindContract},
		"length differs from the range":   {"Content-Range: bytes 10-49/100000\r\nContent-Length: 50", film[10:60], 10, KindContract},
		"body longer than the range":      {"Content-Range: bytes 10-49/100000\r\nTransfer-Encoding: chunked", film[10:60], 10, KindContract},
		"valid range":                     {"Content-Range: bytes 10-99999/100000", film[10:], 10, 0},
		"valid range with spaces":         {"Content-Range:  bytes 10 - 99999 / 100000 ", film[10:], 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
				chunked := strings.Contains(c.head, "chunked")
				head := "HTTP/1.1 206 Partial\r\n" + c.head + "\r\n"
				if !strings.Contains(c.head, "Content-Length") && !chunked {
					head += fmt.Sprintf("Content-Length: %d\r\n", len(c.body))
				}
				io.WriteString(conn, head+"\r\n")
				host{chunked: chunked, cut: -1}.send(conn, c.body)
			}}
			_, got, err := w.readInVirtualTime(t, c.offset, "")
			if KindOf(err) != c.want || (err == nil) != (c.want == 0) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			sameOrError(t, film[c.offset:], got, err)
		})
	}
}

func TestShortPartialResponseIsContinuedWithNextRange(t *testing.T) {
	w := &wire{answer: func(_ int, r *http.Request, conn net.Conn) {
		from, _ := rangeStart(r)
		to := min(from+30_000, len(film))
		fmt.Fprintf(conn, "HTTP/1.1 206 P\r\nETag: \"v1\"\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n", from, to-1, len(film), to-from)
		conn.Write(film[from:to])
	}}
	_, got, err := w.readInVirtualTime(t, 0, "")
	if err != nil || !bytes.Equal(got, film) || w.count() != 4 {
		t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
	}
}

func TestContentResponseWithoutFileIsAnError(t *testing.T) {
	for raw, want := range map[string]Kind{
		"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n":                                 KindContentNotReady,
		"HTTP/1.1 204 No Content\r\n\r\n":                                                    KindNoContent,
		"HTTP/1.1 207 Multi\r\nContent-Length: 0\r\n\r\n":                                    KindContract,
		"HTTP/1.1 206 P\r\nContent-Type: multipart/byteranges\r\nContent-Length: 1\r\n\r\nx": KindContract,
		"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx":              KindContract,
		"HTTP/1.1 416 No\r\nContent-Range: bytes */100000\r\nContent-Length: 0\r\n\r\n":      KindOutOfRange,
		"HTTP/1.1 409 No\r\nContent-Length: 29\r\n\r\n{\"code\":\"CONTENT_NOT_READY\"}  ":    KindContentNotReady,
	} {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) { io.WriteString(conn, raw) }}
		if _, _, err := w.readInVirtualTime(t, 0, ""); KindOf(err) != want {
			t.Errorf("%q: got %v, want %v", raw, err, want)
		}
	}
}

func TestDownloadReportsErrorKindWhenResumeFails(t *testing.T) {
	for status, want := range map[int]Kind{401: KindCredentialRejected, 404: KindNotFound, 302: KindRedirect, 418: KindContract} {
		h := host{file: film, etag: `"v1"`, cut: 5000}
		w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
			if n > 0 {
				fmt.Fprintf(conn, "HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n", status)
				return
			}
			h.answer(n, r, conn)
		}}
		_, got, err := w.readInVirtualTime(t, 0, "")
		if KindOf(err) != want || len(got) != 5000 || w.count() != 2 {
			t.Errorf("%d: got %d bytes in %d requests, %v", status, len(got), w.count(), err)
		}
	}
}
