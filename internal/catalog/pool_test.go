package catalog

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestClassesUseSeparateConnectionPools(t *testing.T) {
	pools := NewTransportPools(NewTransport())
	for route, want := range map[string]*pool{
		OpCreate: pools.orders, opContent: pools.results, opGeneration: pools.calls, opQuote: pools.calls, opDelete: pools.calls, "": pools.calls,
	} {
		if pools.pool(route) != want {
			t.Errorf("%q uses the wrong pool", route)
		}
	}
	if pools.calls == pools.orders || pools.orders == pools.results || pools.calls == pools.results {
		t.Error("two classes share a pool")
	}
}

func TestIdleConnectionsAreClosedAfterResponseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const warm = 8
		var stale sync.Map // connections on which the server no longer responds
		w := &wire{reused: true}
		w.answer = func(n int, _ *http.Request, conn net.Conn) {
			if _, silent := stale.Load(conn); silent {
				_, _ = conn.Read(make([]byte, 1)) // blocks until the connection is closed
				return
			}
			if n < warm {
				stale.Store(conn, true)
				time.Sleep(time.Second) // keeps the connection busy, so that each request needs its own connection
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n"+`{"balanceCents":7}`)
		}
		client := w.client(t, Config{})
		var all sync.WaitGroup
		for range warm {
			all.Go(func() { _, _ = client.Account(t.Context(), testCredential) })
		}
		all.Wait()
		if _, err := client.Account(t.Context(), testCredential); err != nil || w.count() != warm+2 {
			t.Errorf("after %d requests: %v; want one request without a response and one with a response", w.count()-warm, err)
		}
	})
}

func TestRequestBurstStaysWithinConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = maxConns + 50
		release := make(chan struct{})
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			<-release
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n"+`{"balanceCents":7}`)
		}, reused: true}
		client := w.client(t, Config{})
		results := make(chan error, burst)
		for n := range burst {
			cred := Forwarded(NewSecret(fmt.Sprint("key-", n%30))) // 30 keys, because a single key may not have this many concurrent requests
			go func() {
				_, err := client.Account(t.Context(), cred)
				results <- err
			}()
		}
		synctest.Wait()
		if got, want := w.count(), maxConns-maxConns/16; got != want {
			t.Errorf("%d requests are in flight, want %d", got, want)
		}
		close(release)
		for range burst {
			if err := <-results; err != nil {
				t.Errorf("a request of the burst ended with %v", err)
			}
		}
		if got := w.count(); got != burst {
			t.Errorf("%d requests were sent in total, want %d", got, burst)
		}
	})
}

// askAs sends a GET request with an API key over the given transport, and returns the response
// body.
func askAs(t *testing.T, by http.RoundTripper, url, apiKey string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+apiKey)
	resp, err := by.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestConnectionServesOnlyOneAPIKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{reused: true, answer: func(_ int, _ *http.Request, conn net.Conn) { _, _ = io.WriteString(conn, fine) }}
		pools := poolsOf(t, w.transport())
		for n := range 12 {
			if _, err := askAs(t, pools, "http://catalog.example/", fmt.Sprint(n%3)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := w.open.Load(); n != 3 {
			t.Errorf("three keys have %d connections", n)
		}
	})
}

func TestDuplicateResponseNeverReachesAnotherAPIKey(t *testing.T) {
	defer log.SetOutput(log.Writer())
	log.SetOutput(io.Discard) // net/http logs a response that no request waits for; every program that uses this transport must discard net/http's log
	synctest.Test(t, func(t *testing.T) {
		w := &wire{reused: true, answer: func(_ int, r *http.Request, conn net.Conn) {
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.URL.Path), r.URL.Path)
			_, _ = io.WriteString(conn, answer+answer)
		}}
		pools := poolsOf(t, w.transport())
		var asking sync.WaitGroup
		for n := range 8 {
			asking.Go(func() {
				for range 200 {
					if got, err := askAs(t, pools, fmt.Sprintf("http://catalog.example/%d", n), fmt.Sprint(n)); err == nil && got != fmt.Sprintf("/%d", n) {
						t.Errorf("request %d gets the response %q", n, got)
					}
				}
			})
		}
		asking.Wait()
	})
}

func TestConnectionsOfRejectedAPIKeyAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{reused: true, answer: func(_ int, _ *http.Request, conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}")
		}}
		pools := poolsOf(t, w.transport())
		for n := range 10 {
			if _, err := askAs(t, pools, "http://catalog.example/a", fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(pools.calls.keys); n != 0 || w.open.Load() != 0 {
			t.Errorf("%d keys and %d connections are kept", n, w.open.Load())
		}
	})
}

func TestManyAPIKeysStayWithinConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{reused: true, answer: func(_ int, _ *http.Request, conn net.Conn) { _, _ = io.WriteString(conn, fine) }}
		base := w.transport()
		base.MaxConnsPerHost = 10
		pools := poolsOf(t, base)
		for n := range 100 {
			if _, err := askAs(t, pools, "http://catalog.example/a", fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := w.open.Load(); n > 10 || len(pools.calls.keys) > 10 {
				t.Errorf("%d connections are open, and %d keys are kept", n, len(pools.calls.keys))
			}
		}
		time.Sleep(2 * base.IdleConnTimeout)
		if w.open.Load() != 0 {
			t.Errorf("%d connections are kept", w.open.Load())
		}
	})
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"

func TestSwitchingProtocolsResponseFailsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			_, _ = conn.Read(make([]byte, 1)) // blocks until the connection is closed
		}}
		client := w.client(t, Config{})
		for op, call := range calls {
			want := KindContract
			if op == OpCreate {
				want = KindOutcomeUnknown
			}
			began := time.Now()
			if err := call(t.Context(), client); KindOf(err) != want || time.Since(began) != 0 {
				t.Errorf("%s: %v after %v", op, err, time.Since(began))
			}
		}
	})
}
