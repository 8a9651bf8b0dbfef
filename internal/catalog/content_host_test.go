package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// film is a result file of 100,000 random bytes.
var film = func() []byte {
	b := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}()

// otherFilm has the size of film, but each byte is different.
var otherFilm = func() []byte {
	b := bytes.Clone(film)
	for i := range b {
		b[i] ^= 0x55
	}
	return b
}()

// host responds to content requests, either correctly or with one defect.
type host struct {
	file    []byte
	etag    string
	noRange bool
	chunked bool
	closed  bool // whether responses use HTTP/1.0, so that the body ends when the connection ends
	cut     int  // number of body bytes before the connection fails; -1 means that it does not fail
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

// readContent opens the content of generation g1 at an offset and reads it to the end, in chunks of an
// unusual size.
func readContent(ctx context.Context, c *Client, offset int64, etag string) (*Content, []byte, error) {
	content, err := c.Content(ctx, testCredential, "g1", offset, etag)
	if err != nil {
		return nil, nil, err
	}
	defer content.Body.Close()
	var got bytes.Buffer
	_, err = io.CopyBuffer(&got, struct{ io.Reader }{content.Body}, make([]byte, 3777))
	return content, got.Bytes(), err
}

// readInVirtualTime calls readContent in virtual time, with a new client that is connected to the wire w.
func (w *wire) readInVirtualTime(t *testing.T, offset int64, etag string) (content *Content, got []byte, err error) {
	synctest.Test(t, func(t *testing.T) {
		content, got, err = readContent(t.Context(), w.client(t, Config{}), offset, etag)
	})
	return content, got, err
}

// sameOrError checks that got equals want or, if err is not nil, is a prefix of want.
func sameOrError(t *testing.T, want, got []byte, err error) {
	t.Helper()
	if err == nil && sha256.Sum256(want) != sha256.Sum256(got) {
		t.Errorf("read %d bytes without an error, which differ from the %d bytes of the file", len(got), len(want))
	}
	if !bytes.HasPrefix(want, got) {
		t.Errorf("the first %d bytes differ from the file", len(got))
	}
}
