package catalog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleTimeoutExcludesTimeBetweenReads(t *testing.T) {
	for _, pause := range []time.Duration{0, 20 * time.Second, 50 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(n int, r *http.Request, conn net.Conn) {
				if n > 0 {
					host{file: film, etag: `"v1"`, cut: -1}.answer(n, r, conn)
					return
				}
				host{file: film, etag: `"v1"`, cut: 9000}.answer(n, r, conn)
				time.Sleep(2 * time.Hour)
			}}
			content, err := w.client(t, Config{}).Content(t.Context(), testCredential, "g1", 0, "")
			if err != nil {
				t.Fatal(err)
			}
			defer content.Body.Close()
			if _, err := io.CopyN(io.Discard, content.Body, 9000); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause) // the caller pauses
			start := time.Now()
			n, err := content.Body.Read(make([]byte, 1))
			if elapsed := time.Since(start); n != 1 || err != nil || elapsed < 30*time.Second || elapsed > 31*time.Second {
				t.Errorf("after a pause of %v the read took %v, %v", pause, elapsed, err)
			}
			time.Sleep(2 * time.Hour) // waits until the simulated host has closed the connection
		})
	}
}

func TestSlowDownloadDoesNotTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n")
			for i := range 50 {
				time.Sleep(20 * time.Second)
				conn.Write(film[i : i+1])
			}
		}}
		_, got, err := readContent(t.Context(), w.client(t, Config{}), 0, "")
		if err != nil || !bytes.Equal(got, film[:50]) || w.count() != 1 {
			t.Errorf("got %d bytes in %d requests, %v", len(got), w.count(), err)
		}
	})
}

func TestSlowCallerDoesNotTriggerIdleTimeout(t *testing.T) {
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

func TestContentReadEndsWithCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc")
			time.Sleep(time.Minute)
		}}
		start := time.Now()
		_, got, err := readContent(before(t, 5*time.Second), w.client(t, Config{}), 0, "")
		if err != context.DeadlineExceeded || len(got) != 3 || time.Since(start) != 5*time.Second || w.count() != 1 {
			t.Errorf("got %d bytes after %v, %v", len(got), time.Since(start), err)
		}
		time.Sleep(time.Minute)
	})
}

func TestUnreadContentBodyCanBeClosedTwice(t *testing.T) {
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

func FuzzContent(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"), uint16(0))
	f.Add([]byte("HTTP/1.1 206 P\r\nContent-Range: bytes 2-4/5\r\nContent-Length: 3\r\n\r\ncde"), uint16(2))
	f.Add([]byte("HTTP/1.1 416 P\r\nContent-Range: bytes */5\r\nContent-Length: 0\r\n\r\n"), uint16(5))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"), uint16(1))
	f.Add([]byte("HTTP/1.1 200 OK\n\n"), uint16(61))
	f.Add([]byte("HTTP/1.1 208 OK\n\n"), uint16(35))
	f.Add([]byte("HTTP/1.1 000\n\n0"), uint16(72))
	f.Add([]byte(""), uint16(0))
	f.Fuzz(func(t *testing.T, raw []byte, offset uint16) {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) { conn.Write(raw) }}
			content, got, err := readContent(t.Context(), w.client(t, Config{}), int64(offset), "")
			if err == nil && content.Size != nil && int64(len(got)) != *content.Size-int64(offset) {
				t.Errorf("got %d bytes from offset %d of a file of %d bytes, without an error", len(got), offset, *content.Size)
			}
			if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
				t.Errorf("got %v", err)
			}
		})
	})
}
