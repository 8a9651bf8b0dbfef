package catalog

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
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
