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

// someone is a sharer with a name.
func someone(name string) sharer {
	return sharerOf(withOwner(context.Background(), name), "Bearer held")
}

// taking takes a place in the background, and tells when it is there.
func taking(ctx context.Context, p *limiter, h sharer) chan error {
	done := make(chan error, 1)
	go func() { done <- p.acquire(ctx, h) }()
	synctest.Wait()
	return done
}

func come(done chan error) bool {
	select {
	case err := <-done:
		return err == nil
	default:
		return false
	}
}

func TestOneSharerMayTakeNearlyAllSlots(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, greedy, modest := newLimiter(64), someone("greedy"), someone("modest")
		for n := range 60 {
			if !come(taking(ctx, p, greedy)) {
				t.Fatalf("it waits for place %d of 64", n+1)
			}
		}
		if come(taking(ctx, p, greedy)) {
			t.Error("it has a spare place too")
		}
		for n := range fewSlots {
			if !come(taking(ctx, p, modest)) {
				t.Errorf("another waits for its place %d", n+1)
			}
		}
		if come(taking(ctx, p, modest)) {
			t.Error("another has more than its part of the spare places")
		}
		cancel()
		synctest.Wait()
		if len(p.waiting) != 0 {
			t.Errorf("%d wait that have gone", len(p.waiting))
		}
	})
}

func TestTheSharerWithTheFewestSlotsGetsTheNext(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		p, greedy, modest := newLimiter(16), someone("greedy"), someone("modest")
		for range 15 {
			come(taking(t.Context(), p, greedy))
		}
		come(taking(t.Context(), p, modest)) // the spare one
		first, second := taking(t.Context(), p, greedy), taking(t.Context(), p, modest)
		if p.release(greedy); come(second) {
			t.Error("the spare place is given to one that waits, and is none any more")
		}
		p.release(greedy)
		synctest.Wait()
		if come(first) || !come(second) {
			t.Error("who has the most gets the next place")
		}
		p.release(greedy)
		synctest.Wait()
		if !come(first) {
			t.Error("nobody else waits, and the place stays free")
		}
	})
}

func TestAWaitForASlotIsNoSilenceOfTheCatalog(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
			_, _ = conn.Read(make([]byte, 1)) // until the reader is done
		}}
		base := NewTransport()
		base.DialContext, base.MaxConnsPerHost = w.dial, 1
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
			t.Errorf("%d requests are told of, and one was sent", n)
		}
		_ = unread.Body.Close()
	})
}

// hangingCatalog is a catalog that answers no order and no download of one credential, and all of the other.
func hangingCatalog(t *testing.T) *Client {
	w := &wire{answer: func(_ int, r *http.Request, conn net.Conn) {
		if strings.Contains(r.URL.Path, "slow") || strings.HasPrefix(r.Header.Get("Idempotency-Key"), "slow") {
			_, _ = conn.Read(make([]byte, 1)) // until it is closed
			return
		}
		body := `{"id":"g1","status":"queued"}`
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}}
	return w.client(t, Config{})
}

func TestAttackOneOwnersRequestsKeepNoOtherWaiting(t *testing.T) { // A8
	held := Held(func() Secret { return NewSecret("the-key-that-is-held") })
	of := func(name string) Credential { c := held; c.Owner = name; return c }
	for name, creds := range map[string][2]Credential{
		"two API keys":                {testCredential, Forwarded(NewSecret("another-key"))},
		"two owners behind one":       {of("greedy"), of("modest")},
		"an owner and anonymous ones": {of("greedy"), held},
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
					t.Errorf("an order: %v", err)
				}
				content, err := client.Content(t.Context(), creds[1], "g1", 0, "")
				if err != nil {
					t.Fatalf("a download: %v", err)
				}
				_, _ = io.Copy(io.Discard, content.Body)
				_ = content.Body.Close()
				if took := time.Since(began); took > 0 {
					t.Errorf("they took %v", took)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}
