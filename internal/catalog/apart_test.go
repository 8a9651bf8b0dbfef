package catalog

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDownloadsThatNobodyReadsKeepNoCallWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, r *http.Request, conn net.Conn) {
			if strings.HasSuffix(r.URL.Path, "/content") {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
				_, _ = conn.Read(make([]byte, 1)) // until the reader is done
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n"+`{"balanceCents":7}`)
		}}
		base := NewTransport()
		base.DialContext = w.dial
		transport := KeepApart(base)
		defer transport.CloseIdleConnections()
		client, err := New(Config{BaseURL: "http://catalog.example", AllowInsecure: true, Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range maxConns {
			content, err := client.Content(ctx, testCredential, "gen_1", 0, "")
			if err != nil {
				t.Fatal(err)
			}
			defer content.Body.Close()
		}
		if _, err := client.Account(ctx, testCredential); err != nil {
			t.Errorf("beside %d downloads a call is answered with %v", maxConns, err)
		}
	})
}

func TestConnectionsThatWaitAreClosedOnceOneOfThemWasSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const warm = 8
		var stale sync.Map // connections that carry nothing any more
		w := &wire{reused: true}
		w.answer = func(n int, _ *http.Request, conn net.Conn) {
			if _, silent := stale.Load(conn); silent {
				_, _ = conn.Read(make([]byte, 1)) // until it is closed
				return
			}
			if n < warm {
				stale.Store(conn, true)
				time.Sleep(time.Second) // so that all need a connection of their own
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n"+`{"balanceCents":7}`)
		}
		base := NewTransport()
		base.DialContext = w.dial
		transport := KeepApart(base)
		defer transport.CloseIdleConnections()
		client, err := New(Config{BaseURL: "http://catalog.example", AllowInsecure: true, Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range warm {
			all.Go(func() { _, _ = client.Account(t.Context(), testCredential) })
		}
		all.Wait()
		if _, err := client.Account(t.Context(), testCredential); err != nil || w.count() != warm+2 {
			t.Errorf("after %d requests: %v; want one that is silent and one that is answered", w.count()-warm, err)
		}
	})
}
