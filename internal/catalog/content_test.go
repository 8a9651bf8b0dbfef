package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// film is a result file of 100,000 bytes without a pattern.
var film = func() []byte {
	b := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}()

// otherFilm has the same size and other bytes.
var otherFilm = func() []byte {
	b := bytes.Clone(film)
	for i := range b {
		b[i] ^= 0x55
	}
	return b
}()

// host answers content requests as a good server would; a fault is done to some.
type host struct {
	file    []byte
	etag    string
	noRange bool
	chunked bool
	closed  bool // HTTP/1.0: neither length nor chunks
	cut     int  // bytes of a body after which the connection dies, -1 for none
}

func (h host) answer(_ int, r *http.Request, conn net.Conn) {
	from, isRange := rangeStart(r)
	if h.noRange || r.Header.Get("If-Range") != "" && r.Header.Get("If-Range") != h.etag {
		from, isRange = 0, false
	}
	head := "HTTP/1.1 200 OK\r\n"
	if h.closed {
		head = "HTTP/1.0 200 OK\r\n"
	}
	body := h.file[min(from, len(h.file)):]
	switch {
	case isRange && from >= len(h.file):
		head, body = fmt.Sprintf("HTTP/1.1 416 No\r\nContent-Range: bytes */%d\r\n", len(h.file)), nil
	case isRange:
		head = fmt.Sprintf("HTTP/1.1 206 Partial\r\nContent-Range: bytes %d-%d/%d\r\n", from, len(h.file)-1, len(h.file))
	}
	if h.etag != "" {
		head += "ETag: " + h.etag + "\r\n"
	}
	switch {
	case h.chunked:
		head += "Transfer-Encoding: chunked\r\n"
	case !h.closed:
		head += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	io.WriteString(conn, head+"Content-Type: video/x-film\r\n\r\n")
	h.send(conn, body)
}

func (h host) send(conn net.Conn, body []byte) {
	for sent := 0; sent < len(body); {
		part := body[sent:min(sent+8000, len(body))]
		if h.cut >= 0 && sent+len(part) > h.cut {
			part = part[:h.cut-sent]
		}
		if h.chunked && len(part) > 0 {
			fmt.Fprintf(conn, "%x\r\n", len(part))
		}
		conn.Write(part)
		if h.chunked && len(part) > 0 {
			io.WriteString(conn, "\r\n")
		}
		if sent += len(part); h.cut >= 0 && sent >= h.cut {
			return
		}
	}
	if h.chunked {
		io.WriteString(conn, "0\r\n\r\n")
	}
}

func rangeStart(r *http.Request) (int, bool) {
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	from, err := strconv.Atoi(strings.TrimSuffix(text, "-"))
	return from, ok && err == nil
}

// read opens content and reads it to its end in pieces of odd size.
func read(ctx context.Context, c *Client, offset int64, etag string) (*Content, []byte, error) {
	content, err := c.Content(ctx, testCredential, "g1", offset, etag)
	if err != nil {
		return nil, nil, err
	}
	defer content.Body.Close()
	var got bytes.Buffer
	_, err = io.CopyBuffer(&got, struct{ io.Reader }{content.Body}, make([]byte, 3777))
	return content, got.Bytes(), err
}

// sameOrError asserts the one promise: every byte, or an error.
func sameOrError(t *testing.T, want, got []byte, err error) {
	t.Helper()
	if err == nil && sha256.Sum256(want) != sha256.Sum256(got) {
		t.Errorf("%d bytes without an error that are not the %d bytes of the file", len(got), len(want))
	}
	if !bytes.HasPrefix(want, got) {
		t.Errorf("the first %d bytes are not those of the file", len(got))
	}
}

func TestContentArrivesWholeFromAnyOffset(t *testing.T) {
	hosts := map[string]host{
		"ranges":               {file: film, etag: `"v1"`, cut: -1},
		"no ranges":            {file: film, etag: `"v1"`, cut: -1, noRange: true},
		"no ETag":              {file: film, cut: -1},
		"a weak ETag":          {file: film, etag: `W/"v1"`, cut: -1},
		"neither":              {file: film, cut: -1, noRange: true},
		"chunks":               {file: film, etag: `"v1"`, cut: -1, chunked: true},
		"chunks and no ranges": {file: film, cut: -1, chunked: true, noRange: true},
		"close":                {file: film, etag: `"v1"`, cut: -1, closed: true},
	}
	for name, h := range hosts {
		for _, offset := range []int{0, 1, 7, 50_000, 99_999, 100_000} {
			t.Run(fmt.Sprint(name, offset), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &wire{answer: h.answer}
					content, got, err := read(t.Context(), w.client(t, Config{}), int64(offset), "")
					if err != nil || !bytes.Equal(got, film[offset:]) {
						t.Fatalf("got %d bytes, %v", len(got), err)
					}
					want := "video/x-film"
					if offset == len(film) && !h.noRange {
						want = "" // the range was refused, which says nothing of the file
					}
					if content.Offset != int64(offset) || content.ContentType != want || content.Etag != strongEtag(h.etag) {
						t.Errorf("got %+v", content)
					}
					if known := !h.chunked || !h.noRange; known && (content.Size == nil || *content.Size != 100_000) {
						t.Errorf("the size is %v", content.Size)
					}
				})
			})
		}
	}
}

func TestAnOffsetPastTheEndIsOutOfRange(t *testing.T) {
	for _, h := range []host{{etag: `"v1"`}, {noRange: true}, {chunked: true}, {chunked: true, noRange: true}, {closed: true}} {
		synctest.Test(t, func(t *testing.T) {
			h.file, h.cut = film, -1
			w := &wire{answer: h.answer}
			_, got, err := read(t.Context(), w.client(t, Config{}), 100_001, "")
			if KindOf(err) != KindOutOfRange || len(got) > 0 {
				t.Errorf("%+v: got %d bytes, %v", h.noRange, len(got), err)
			}
		})
	}
	c := newTestClient(t, roundTrip(func(*http.Request) (*http.Response, error) { panic("sent") }))
	if _, err := c.Content(t.Context(), testCredential, "g1", -1, ""); KindOf(err) != KindInvalidInput {
		t.Errorf("got %v", err)
	}
}

func TestAnEmptyFileIsWhole(t *testing.T) {
	for _, h := range []host{{}, {chunked: true}, {etag: `"v1"`}} {
		synctest.Test(t, func(t *testing.T) {
			h.cut = -1
			w := &wire{answer: h.answer}
			_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
			if err != nil || len(got) > 0 {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestABodyThatIsCutResumes(t *testing.T) { // U16
	for name, h := range map[string]host{
		"ranges":                {etag: `"v1"`},
		"ranges, chunks":        {etag: `"v1"`, chunked: true},
		"no ranges":             {etag: `"v1"`, noRange: true},
		"no ETag":               {},
		"no ETag, chunks":       {chunked: true},
		"no ETag and no ranges": {noRange: true, chunked: true},
		"close":                 {etag: `"v1"`, closed: true},
	} {
		for _, cut := range []int{0, 1, 8000, 33_333, 99_999} {
			for _, offset := range []int{0, 500} {
				t.Run(fmt.Sprint(name, cut, offset), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h.file = film
						cuts := 0
						w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
							if h.cut = -1; n == 0 {
								h.cut, cuts = cut, cuts+1
							}
							h.answer(n, r, conn)
						}}
						_, got, err := read(t.Context(), w.client(t, Config{}), int64(offset), "")
						if err != nil || !bytes.Equal(got, film[offset:]) || cuts != 1 || w.count() < 2 && cut < len(film)-offset {
							t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
						}
					})
				})
			}
		}
	}
}

func TestABodyThatIsCutAgainAndAgainResumesWhileItGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host{file: film, etag: `"v1"`, cut: 9000}
		w := &wire{answer: h.answer}
		_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
		if err != nil || !bytes.Equal(got, film) || w.count() != 12 {
			t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
		}
	})
}

func TestABodyThatDoesNotGrowIsInterrupted(t *testing.T) {
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
				_, got, err := read(t.Context(), w.client(t, Config{}), 100, "")
				e := asError(t, err)
				if asked := time.Duration(e.Status/400*2) * 3 * time.Second; time.Since(start) < asked || time.Since(start) > asked+time.Second {
					t.Errorf("took %v, asked to wait %v", time.Since(start), asked)
				}
				if e.Kind != KindInterrupted || e.NextOffset != 5100 || len(got) != 5000 || w.count() != 4 || e.Err == nil {
					t.Errorf("got %d bytes in %d requests, %+v", len(got), w.count(), e)
				}
			})
		})
	}
}

func TestAnOutageCutsResumingShort(t *testing.T) { // U1
	synctest.Test(t, func(t *testing.T) {
		h := host{file: film, etag: `"v1"`, cut: 5000}
		w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
			if n == 0 {
				h.answer(n, r, conn)
			}
		}}
		c := w.client(t, Config{})
		c.budget.tokens = budgetTokens / 2
		_, got, err := read(t.Context(), c, 0, "")
		if KindOf(err) != KindInterrupted || len(got) != 5000 || w.count() != 2 {
			t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
		}
	})
}

func TestARangeIsOnlyGoodForTheSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: host{file: film, etag: `"v1"`, cut: 60_000}.answer}
		if _, _, err := read(t.Context(), w.client(t, Config{}), 500, ""); err != nil {
			t.Fatal(err)
		}
		var sent []string
		for _, r := range w.requests {
			sent = append(sent, r.Header.Get("Range")+" "+r.Header.Get("If-Range"))
		}
		if want := []string{"bytes=500- ", `bytes=60500- "v1"`}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
	})
}

func TestTheEndCanBeProvedByARefusedRange(t *testing.T) {
	for _, contentRange := range []string{"Content-Range: bytes */100000\r\n", ""} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
				if n > 0 {
					io.WriteString(conn, "HTTP/1.1 416 No\r\nContent-Length: 0\r\n"+contentRange+"\r\n")
					return
				}
				host{file: film, etag: `"v1"`, closed: true, noRange: true, cut: -1}.answer(n, r, conn)
			}}
			_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
			if err != nil || !bytes.Equal(got, film) || w.count() != 2 {
				t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
			}
		})
	}
}

func TestAnAnswerThatEndsWithItsConnectionIsNotTakenForWhole(t *testing.T) { // U16
	for _, cut := range []int{0, 1, 50_000, 99_999, -1} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: host{file: film, closed: true, cut: cut, noRange: true}.answer}
			_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
			if KindOf(err) != KindInterrupted {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestOtherBytesAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		first, then host
		want        Kind
	}{
		"another ETag":              {host{file: film, etag: `"v1"`}, host{file: otherFilm, etag: `"v2"`}, KindContentChanged},
		"another ETag, no ranges":   {host{file: film, etag: `"v1"`}, host{file: otherFilm, etag: `"v2"`, noRange: true}, KindContentChanged},
		"no ETag any more":          {host{file: film, etag: `"v1"`}, host{file: otherFilm}, KindContentChanged},
		"a weak one":                {host{file: film, etag: `"v1"`}, host{file: otherFilm, etag: `W/"v1"`}, KindContentChanged},
		"no ETag at all":            {host{file: film}, host{file: otherFilm}, KindContentChanged},
		"no ETag, chunks":           {host{file: film, chunked: true}, host{file: otherFilm, chunked: true}, KindContentChanged},
		"a shorter file":            {host{file: film, etag: `"v1"`}, host{file: film[:70_000], etag: `"v1"`}, KindContentChanged},
		"a longer file":             {host{file: film[:70_000], etag: `"v1"`}, host{file: film, etag: `"v1"`}, KindContentChanged},
		"much shorter":              {host{file: film, etag: `"v1"`}, host{file: film[:100], etag: `"v1"`}, KindContentChanged},
		"much shorter, no ETag":     {host{file: film}, host{file: film[:100]}, KindContentChanged},
		"much shorter in chunks":    {host{file: film, chunked: true}, host{file: film[:100], chunked: true}, KindContentChanged},
		"gone":                      {host{file: film, chunked: true}, host{chunked: true}, KindContentChanged},
		"another type is no change": {host{file: film}, host{file: film, chunked: true, noRange: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.first.cut, c.then.cut = 33_000, -1
				w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
					if n == 0 {
						c.first.answer(n, r, conn)
					} else {
						c.then.answer(n, r, conn)
					}
				}}
				_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
				if KindOf(err) != c.want || w.count() < 2 {
					t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
				}
				sameOrError(t, c.first.file, got, err)
			})
		})
	}
}

func TestAWrongLengthIsNoticed(t *testing.T) { // U16
	for _, delta := range []int{-99_000, -1, 1, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
				if n > 0 {
					host{file: film, etag: `"v1"`, cut: -1}.answer(n, r, conn)
					return
				}
				fmt.Fprintf(conn, "HTTP/1.1 206 P\r\nETag: \"v1\"\r\nContent-Range: bytes 0-99999/100000\r\nContent-Length: %d\r\n\r\n", len(film)+delta)
				conn.Write(film[:len(film)+min(delta, 0)])
			}}
			_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
			if err != nil || !bytes.Equal(got, film) {
				t.Errorf("%d: got %d bytes in %d requests, %v", delta, len(got), w.count(), err)
			}
		})
	}
}

func TestAKnownEtagRefusesOtherBytes(t *testing.T) {
	for etag, want := range map[string]Kind{`"v1"`: 0, `"v2"`: KindContentChanged, `W/"v1"`: KindContentChanged, "v1": KindContentChanged, "\"v\r\n1\"": KindContentChanged} {
		for _, offset := range []int64{0, 10} {
			for _, noRange := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					w := &wire{answer: host{file: film, etag: `"v1"`, noRange: noRange, cut: -1}.answer}
					_, got, err := read(t.Context(), w.client(t, Config{}), offset, etag)
					if KindOf(err) != want {
						t.Errorf("%q from %d: got %d bytes, %v", etag, offset, len(got), err)
					}
				})
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: host{file: film, cut: -1}.answer}
		if _, _, err := read(t.Context(), w.client(t, Config{}), 0, `"v1"`); KindOf(err) != KindContentChanged {
			t.Errorf("bytes that can't be told: got %v", err)
		}
	})
}

func TestAPartIsCheckedAgainstWhatWasAskedFor(t *testing.T) { // U16
	for name, c := range map[string]struct {
		head   string
		body   []byte
		offset int64
		want   Kind
	}{
		"unasked and whole":       {"Content-Range: bytes 0-99999/100000", film, 0, 0},
		"unasked and partial":     {"Content-Range: bytes 5-9/100000", film[5:10], 0, KindContract},
		"another start":           {"Content-Range: bytes 0-99999/100000", film, 10, KindContract},
		"without a range":         {"X-A: b", film[10:], 10, KindContract},
		"without a total":         {"Content-Range: bytes 10-99999/*", film[10:], 10, KindContract},
		"another unit":            {"Content-Range: pages 10-99999/100000", film[10:], 10, KindContract},
		"beyond its total":        {"Content-Range: bytes 10-100000/100000", film[10:], 10, KindContract},
		"turned round":            {"Content-Range: bytes 10-5/100000", film[10:], 10, KindContract},
		"negative":                {"Content-Range: bytes -10-99999/100000", film[10:], 10, KindContract},
		"huge":                    {"Content-Range: bytes 10-99999/99999999999999999999", film[10:], 10, KindContract},
		"a length of its own":     {"Content-Range: bytes 10-49/100000\r\nContent-Length: 50", film[10:60], 10, KindContract},
		"longer than it says":     {"Content-Range: bytes 10-49/100000\r\nTransfer-Encoding: chunked", film[10:60], 10, KindContract},
		"as it should be":         {"Content-Range: bytes 10-99999/100000", film[10:], 10, 0},
		"as it should be, spaced": {"Content-Range:  bytes 10 - 99999 / 100000 ", film[10:], 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
					chunked := strings.Contains(c.head, "chunked")
					head := "HTTP/1.1 206 Partial\r\n" + c.head + "\r\n"
					if !strings.Contains(c.head, "Content-Length") && !chunked {
						head += fmt.Sprintf("Content-Length: %d\r\n", len(c.body))
					}
					io.WriteString(conn, head+"\r\n")
					host{chunked: chunked, cut: -1}.send(conn, c.body)
				}}
				_, got, err := read(t.Context(), w.client(t, Config{}), c.offset, "")
				if KindOf(err) != c.want || (err == nil) != (c.want == 0) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				sameOrError(t, film[c.offset:], got, err)
			})
		})
	}
}

func TestAPartThatEndsEarlyIsFollowedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, r *http.Request, conn net.Conn) {
			from, _ := rangeStart(r)
			to := min(from+30_000, len(film))
			fmt.Fprintf(conn, "HTTP/1.1 206 P\r\nETag: \"v1\"\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n", from, to-1, len(film), to-from)
			conn.Write(film[from:to])
		}}
		_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
		if err != nil || !bytes.Equal(got, film) || w.count() != 4 {
			t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
		}
	})
}

func TestWhatIsNoFileIsSaid(t *testing.T) {
	for raw, want := range map[string]Kind{
		"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n":                                 KindContentNotReady,
		"HTTP/1.1 204 No Content\r\n\r\n":                                                    KindNoContent,
		"HTTP/1.1 207 Multi\r\nContent-Length: 0\r\n\r\n":                                    KindContract,
		"HTTP/1.1 206 P\r\nContent-Type: multipart/byteranges\r\nContent-Length: 1\r\n\r\nx": KindContract,
		"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx":              KindContract,
		"HTTP/1.1 416 No\r\nContent-Range: bytes */100000\r\nContent-Length: 0\r\n\r\n":      KindOutOfRange,
		"HTTP/1.1 409 No\r\nContent-Length: 29\r\n\r\n{\"code\":\"CONTENT_NOT_READY\"}  ":    KindContentNotReady,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) { io.WriteString(conn, raw) }}
			if _, _, err := read(t.Context(), w.client(t, Config{}), 0, ""); KindOf(err) != want {
				t.Errorf("%q: got %v, want %v", raw, err, want)
			}
		})
	}
}

func TestAnErrorWhileResumingIsReturnedAsItIs(t *testing.T) {
	for status, want := range map[int]Kind{401: KindCredentialRejected, 404: KindNotFound, 302: KindRedirect, 418: KindContract} {
		synctest.Test(t, func(t *testing.T) {
			h := host{file: film, etag: `"v1"`, cut: 5000}
			w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
				if n > 0 {
					fmt.Fprintf(conn, "HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n", status)
					return
				}
				h.answer(n, r, conn)
			}}
			_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
			if KindOf(err) != want || len(got) != 5000 || w.count() != 2 {
				t.Errorf("%d: got %d bytes in %d requests, %v", status, len(got), w.count(), err)
			}
		})
	}
}

func TestSilenceBetweenBytesIsNotWaitedOut(t *testing.T) { // U3
	synctest.Test(t, func(t *testing.T) {
		h := host{file: film, etag: `"v1"`, cut: 9000}
		w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
			h.answer(n, r, conn)
			if n == 0 {
				time.Sleep(time.Hour)
			}
		}}
		h.cut = 9000
		start := time.Now()
		content, err := w.client(t, Config{}).Content(t.Context(), testCredential, "g1", 0, "")
		if err != nil {
			t.Fatal(err)
		}
		defer content.Body.Close()
		n, err := io.CopyN(io.Discard, content.Body, 9001)
		if elapsed := time.Since(start); err != nil || n != 9001 || elapsed < 30*time.Second || elapsed > 31*time.Second {
			t.Errorf("got %d bytes after %v, %v", n, elapsed, err)
		}
		time.Sleep(time.Hour)
	})
}

func TestBytesThatDripAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n")
			for i := range 50 {
				time.Sleep(20 * time.Second)
				conn.Write(film[i : i+1])
			}
		}}
		_, got, err := read(t.Context(), w.client(t, Config{}), 0, "")
		if err != nil || !bytes.Equal(got, film[:50]) || w.count() != 1 {
			t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
		}
	})
}

func TestASlowCallerIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: host{file: film, cut: -1}.answer}
		content, err := w.client(t, Config{}).Content(t.Context(), testCredential, "g1", 0, "")
		if err != nil {
			t.Fatal(err)
		}
		defer content.Body.Close()
		for p := make([]byte, 10_000); err == nil; _, err = io.ReadFull(content.Body, p) {
			time.Sleep(time.Hour)
		}
		if err != io.EOF || w.count() != 1 {
			t.Errorf("got %v after %d requests", err, w.count())
		}
	})
}

func TestABodyEndsWithTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc")
			time.Sleep(time.Minute)
		}}
		start := time.Now()
		_, got, err := read(before(t, 5*time.Second), w.client(t, Config{}), 0, "")
		if err != context.DeadlineExceeded || len(got) != 3 || time.Since(start) != 5*time.Second || w.count() != 1 {
			t.Errorf("got %d bytes after %v, %v", len(got), time.Since(start), err)
		}
		time.Sleep(time.Minute)
	})
}

func TestABodyCanBeClosedAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: host{file: film, cut: -1}.answer}
		content, err := w.client(t, Config{}).Content(t.Context(), testCredential, "g1", 0, "")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := content.Body.Read(nil); n != 0 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		for range 2 {
			if err := content.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := content.Body.Read(make([]byte, 1)); !errors.Is(err, errBodyClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestReadingAllocatesNothing(t *testing.T) {
	c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		resp := reply(r, 200, nil, "")
		resp.Body, resp.ContentLength = zeros{}, 1<<40
		return resp, nil
	}))
	content, err := c.Content(t.Context(), testCredential, "g1", 0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Body.Close()
	p := make([]byte, 4096)
	if n := testing.AllocsPerRun(1000, func() { _, _ = content.Body.Read(p) }); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
func (zeros) Close() error               { return nil }

func FuzzContent(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"), uint16(0))
	f.Add([]byte("HTTP/1.1 206 P\r\nContent-Range: bytes 2-4/5\r\nContent-Length: 3\r\n\r\ncde"), uint16(2))
	f.Add([]byte("HTTP/1.1 416 P\r\nContent-Range: bytes */5\r\nContent-Length: 0\r\n\r\n"), uint16(5))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"), uint16(1))
	f.Fuzz(func(t *testing.T, raw []byte, offset uint16) {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) { conn.Write(raw) }}
			content, got, err := read(t.Context(), w.client(t, Config{}), int64(offset), "")
			if err == nil && content.Size != nil && int64(len(got)) != *content.Size-int64(offset) {
				t.Errorf("%d bytes from %d of %d without an error", len(got), offset, *content.Size)
			}
			if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
				t.Errorf("got %v", err)
			}
		})
	})
}
