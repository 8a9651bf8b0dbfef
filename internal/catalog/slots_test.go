package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestWithoutFreeConnectionFailsAsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
			_, _ = conn.Read(make([]byte, 1)) // blocks until the client closes the connection
		}}
		base := w.transport()
		base.MaxConnsPerHost = 1
		var told atomic.Int32
		client, err := New(Config{
			BaseURL: "http://catalog.example", AllowInsecure: true, Transport: poolsOf(t, base), AttemptTimeout: 5 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		client = client.Reporting(func(context.Context, Credential, error) { told.Add(1) })
		unread, err := client.Content(t.Context(), testCredential, "g", 0, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Content(t.Context(), Forwarded(NewSecret("another-key")), "g", 0, "")
		if KindOf(err) != KindBusy || !errors.Is(err, errNoConnection) && !strings.Contains(err.Error(), errNoConnection.Error()) {
			t.Errorf("got %v", err)
		}
		if n := told.Load(); n != 1 {
			t.Errorf("%d requests were reported, want the one that was sent", n)
		}
		_ = unread.Body.Close()
	})
}

// hangingCatalog returns a client of a catalog that does not respond to requests whose path contains "slow" or whose
// idempotency key starts with "slow".
func hangingCatalog(t *testing.T) *Client {
	w := &wire{answer: func(_ int, r *http.Request, conn net.Conn) {
		if strings.Contains(r.URL.Path, "slow") || strings.HasPrefix(r.Header.Get("Idempotency-Key"), "slow") {
			_, _ = conn.Read(make([]byte, 1)) // blocks until the connection is closed
			return
		}
		body := `{"id":"g1","status":"queued"}`
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}}
	return w.client(t, Config{})
}

func TestAttackHangingRequestsOfOneCallerDelayNoOtherCaller(t *testing.T) {
	shared := Shared(func() Secret { return NewSecret("the-key-that-is-held") })
	of := func(name string) Credential { c := shared; c.Owner = name; return c }
	for name, creds := range map[string][2]Credential{
		"two API keys":              {testCredential, Forwarded(NewSecret("another-key"))},
		"two owners of one API key": {of("greedy"), of("modest")},
		"with and without an owner": {of("greedy"), shared},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := hangingCatalog(t)
				ctx, cancel := context.WithCancel(t.Context())
				for n := range 260 {
					order := Order{ModelID: "m", Inputs: []byte(`{}`), IdempotencyKey: fmt.Sprint("slow ", n)}
					go func() { _, _, _ = client.Post(ctx, creds[0], order) }()
					go func() { _, _ = client.Content(ctx, creds[0], fmt.Sprint("slow", n), 0, "") }()
				}
				synctest.Wait()
				began := time.Now()
				_, _, err := client.Post(t.Context(), creds[1], Order{ModelID: "m", Inputs: []byte(`{}`), IdempotencyKey: "quick"})
				if err != nil {
					t.Errorf("an order returns %v", err)
				}
				content, err := client.Content(t.Context(), creds[1], "g1", 0, "")
				if err != nil {
					t.Fatalf("a download returns %v", err)
				}
				_, _ = io.Copy(io.Discard, content.Body)
				_ = content.Body.Close()
				if took := time.Since(began); took > 0 {
					t.Errorf("the requests took %v", took)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}
