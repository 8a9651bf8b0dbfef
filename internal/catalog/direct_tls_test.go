package catalog

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// heldBack is a connection whose writes leave together, by flush.
type heldBack struct {
	net.Conn
	hold bool
	out  bytes.Buffer
}

func (h *heldBack) Write(p []byte) (int, error) {
	if h.hold {
		return h.out.Write(p)
	}
	return h.Conn.Write(p)
}

// serveTLS sends on each connection, for the first request, a number of records at once, and
// nothing of the last cut bytes. It answers the others with "fine". What it gives dials it.
func serveTLS(t *testing.T, cut int, records ...string) (d *direct, conns *atomic.Int32) {
	t.Helper()
	pair := httptest.NewUnstartedServer(nil)
	pair.StartTLS()
	defer pair.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int32)
	var serving sync.WaitGroup
	serve := func(raw net.Conn, first bool) {
		defer raw.Close()
		held := &heldBack{Conn: raw}
		conn := tls.Server(held, &tls.Config{Certificates: pair.TLS.Certificates, DynamicRecordSizingDisabled: true})
		in := bufio.NewReader(conn)
		for {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			if first {
				first, held.hold = false, true
				for _, record := range records {
					_, _ = io.WriteString(conn, record)
				}
				held.hold = false
				_, _ = raw.Write(held.out.Bytes()[:held.out.Len()-cut])
				continue
			}
			_, _ = raw.Write(held.out.Bytes()[held.out.Len()-min(cut, held.out.Len()):]) // the rest comes late
			held.out.Reset()
			_, _ = io.WriteString(conn, fine)
		}
	}
	serving.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			n := conns.Add(1)
			serving.Go(func() { serve(raw, n == 1) })
		}
	})
	base := NewTransport()
	trusted := x509.NewCertPool()
	trusted.AddCert(pair.Certificate())
	base.TLSClientConfig = &tls.Config{RootCAs: trusted}
	dial := base.DialContext
	base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, l.Addr().String())
	}
	d = newDirect(base)
	t.Cleanup(func() { d.idle.close(); l.Close(); serving.Wait() })
	return d, conns
}

func TestWhatWasDecryptedAndNotAskedForAnswersNobody(t *testing.T) { // L7
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	filled := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", 4<<10)
	filled += strings.Repeat("x", 4<<10)
	const header = 41 // bytes of the header of exact
	exact := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", 4<<10-header)
	if len(exact) != header {
		t.Fatal(len(exact))
	}
	exact += strings.Repeat("x", 4<<10-header) // fills the buffer of a line
	for name, c := range map[string]struct {
		cut     int
		records []string
		conns   int32
	}{
		"nothing":                        {records: []string{fine}, conns: 1},
		"a long answer in one record":    {records: []string{filled}, conns: 1},
		"a record more":                  {records: []string{fine, forged}, conns: 2},
		"more in the record":             {records: []string{exact + forged}, conns: 2},
		"an empty record and one more":   {records: []string{fine, "", forged}, conns: 2},
		"a part of a record":             {records: []string{fine, forged}, cut: 9, conns: 2},
		"a part of the head of a record": {records: []string{fine, "x"}, cut: 20, conns: 2},
	} {
		t.Run(name, func(t *testing.T) {
			d, conns := serveTLS(t, c.cut, c.records...)
			for n := range 3 {
				got, err := ask(t.Context(), t, d, "https://example.com/a")
				if err != nil || strings.Contains(got, "forged") || n > 0 && !strings.HasSuffix(got, "fine") {
					t.Errorf("request %d is answered with %.80q, %v", n, got, err)
				}
			}
			if conns.Load() != c.conns {
				t.Errorf("three requests took %d connections, want %d", conns.Load(), c.conns)
			}
		})
	}
}

func TestAHandshakeThatTakesTooLongIsNotTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := NewTransport()
		var far net.Conn
		base.DialContext = func(context.Context, string, string) (near net.Conn, err error) {
			near, far = net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }() // it never answers
			return near, nil
		}
		d := newDirect(base)
		began := time.Now()
		_, err := ask(t.Context(), t, d, "https://example.com/a")
		if took := time.Since(began); took != base.TLSHandshakeTimeout || err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ask(ctx, t, d, "https://example.com/a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that has less time is told %v", err)
		}
		if len(d.room) != 0 {
			t.Errorf("%d places are still taken", len(d.room))
		}
	})
}

func TestTheStockTransportServesWhoAsksForMore(t *testing.T) {
	for name, set := range map[string]func(*http.Transport){
		"connections for one request": func(b *http.Transport) { b.DisableKeepAlives = true },
		"a time for the header":       func(b *http.Transport) { b.ResponseHeaderTimeout = time.Second },
		"a proxy":                     func(b *http.Transport) { b.Proxy = http.ProxyFromEnvironment },
		"every protocol":              func(b *http.Transport) { b.Protocols = nil },
		"another protocol":            func(b *http.Transport) { b.Protocols = new(http.Protocols); b.Protocols.SetHTTP2(true) },
		"encryption of its own":       func(b *http.Transport) { b.DialTLSContext = b.DialContext },
	} {
		base := NewTransport()
		set(base)
		if newDirect(base) != nil {
			t.Errorf("%s: not served", name)
		}
	}
}
