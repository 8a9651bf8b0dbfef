package catalog

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
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

// rawServer answers each request as answer says. The connection is closed where answer says that
// it is not to go on.
type rawServer struct {
	url   string
	conns atomic.Int32
	gone  chan struct{} // one for each connection that has ended
}

func serveRaw(t *testing.T, secure *tls.Config, answer func(conn net.Conn, path string) (goOn bool)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + l.Addr().String(), gone: make(chan struct{}, 10_000)}
	if secure != nil {
		s.url, l = "https://"+l.Addr().String(), tls.NewListener(l, secure)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			serving.Go(func() {
				defer func() { s.gone <- struct{}{} }()
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					r, err := http.ReadRequest(in)
					if err != nil || !answer(conn, r.URL.Path) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return s
}

// poolsOf are the pools of a transport, for as long as the test takes.
func poolsOf(t *testing.T, base *http.Transport) *TransportPools {
	t.Helper()
	pools := NewTransportPools(base)
	t.Cleanup(pools.CloseIdleConnections)
	return pools
}

// ask gives the body of an answer.
func ask(ctx context.Context, t *testing.T, by http.RoundTripper, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := by.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"

func TestAnUnsolicitedAnswerClosesItsConnection(t *testing.T) { // L7
	defer log.SetOutput(log.Writer())
	log.SetOutput(io.Discard) // as every program over this transport does
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	secure := httptest.NewUnstartedServer(nil)
	secure.StartTLS()
	defer secure.Close()
	for name, more := range map[string]string{"an answer": forged, "a byte": "x", "hints": "HTTP/1.1 103 Early Hints\r\n\r\n"} {
		for kind, config := range map[string]*tls.Config{"plain": nil, "encrypted": secure.TLS} {
			t.Run(name+", "+kind, func(t *testing.T) {
				s := serveRaw(t, config, func(conn net.Conn, path string) bool {
					_, _ = io.WriteString(conn, fine)
					if path == "/first" {
						_, _ = io.WriteString(conn, more)
					}
					return true
				})
				base := NewTransport()
				base.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com"}
				base.TLSClientConfig.RootCAs.AddCert(secure.Certificate())
				pools := poolsOf(t, base)
				if got, err := ask(t.Context(), t, pools, s.url+"/first"); err != nil || got != "fine" {
					t.Errorf("the first is answered with %q, %v", got, err)
				}
				<-s.gone
				if got, err := ask(t.Context(), t, pools, s.url+"/second"); err != nil || got != "fine" || s.conns.Load() != 2 {
					t.Errorf("the second is answered with %q, %v, on connection %d", got, err, s.conns.Load())
				}
			})
		}
	}
}

func TestAConnectionThatWasClosedWhileIdleCostsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) { _, _ = io.WriteString(conn, fine) }}
		base := NewTransport()
		base.DialContext = w.dial
		pools := poolsOf(t, base)
		for n := range 3 {
			if _, err := ask(t.Context(), t, pools, "http://catalog.example/a"); err != nil || w.count() != n+1 {
				t.Errorf("request %d: %v after %d that arrived", n, err, w.count())
			}
		}
	})
}

func TestARequestThatIsTakenBackEndsItsConnection(t *testing.T) { // U2 U3
	for name, begun := range map[string]string{"before the answer": "", "in its header": "HTTP/1.1 200", "in its body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := serveRaw(t, nil, func(conn net.Conn, _ string) bool {
				_, _ = io.WriteString(conn, begun)
				cancel()
				_, _ = conn.Read(make([]byte, 1)) // until it is closed
				return false
			})
			if got, err := ask(ctx, t, poolsOf(t, NewTransport()), s.url+"/a"); err == nil {
				t.Errorf("answered with %q", got)
			}
			<-s.gone
		})
	}
}

func TestASwitchOfProtocolsIsNotWaitedFor(t *testing.T) { // U17
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			_, _ = conn.Read(make([]byte, 1)) // until it is closed
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

func TestARequestWaitsForAConnectionAsLongAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) { <-release; _, _ = io.WriteString(conn, fine) }}
		base := NewTransport()
		base.DialContext, base.MaxConnsPerHost = w.dial, 1
		pools := poolsOf(t, base)
		go func() { _, _ = ask(t.Context(), t, pools, "http://catalog.example/a") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errNoAnswer)
		defer cancel()
		if _, err := ask(ctx, t, pools, "http://catalog.example/a"); !errors.Is(err, errNoConnection) || w.count() != 1 {
			t.Errorf("got %v after %d requests", err, w.count())
		}
		close(release)
	})
}

// counted is a connection that tells of its end.
type counted struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

func TestIdleConnectionsAreFewAndNotKeptForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := &wire{reused: true, answer: func(_ int, _ *http.Request, conn net.Conn) { <-release; _, _ = io.WriteString(conn, fine) }}
		var open atomic.Int32
		base := NewTransport()
		base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := w.dial(ctx, network, addr)
			open.Add(1)
			return &counted{Conn: conn, open: &open}, err
		}
		pools := poolsOf(t, base)
		var asking sync.WaitGroup
		for range base.MaxIdleConnsPerHost + 5 {
			asking.Go(func() { _, _ = ask(t.Context(), t, pools, "http://catalog.example/a") })
		}
		synctest.Wait()
		close(release)
		asking.Wait()
		synctest.Wait()
		if n := open.Load(); int(n) != base.MaxIdleConnsPerHost {
			t.Errorf("%d are kept", n)
		}
		time.Sleep(base.IdleConnTimeout + time.Second)
		if n := open.Load(); n != 0 {
			t.Errorf("%d are kept in the end", n)
		}
	})
}

func TestTheTransportVerifiesTheServer(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	for name, config := range map[string]*tls.Config{
		"": {RootCAs: trusted}, "an unknown authority": nil, "another name": {RootCAs: trusted, ServerName: "catalog.example.org"},
	} {
		base := NewTransport()
		base.TLSClientConfig = config
		got, err := ask(t.Context(), t, poolsOf(t, base), server.URL+"/a")
		if (err == nil) != (name == "") || err == nil && got != "/a" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestASlowHandshakeIsNotTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := NewTransport()
		base.DialContext = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }() // it never answers
			return near, nil
		}
		pools := poolsOf(t, base)
		began := time.Now()
		_, err := ask(t.Context(), t, pools, "https://example.com/a")
		if took := time.Since(began); took != base.TLSHandshakeTimeout || err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ask(ctx, t, pools, "https://example.com/a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that has less time is told %v", err)
		}
		time.Sleep(base.TLSHandshakeTimeout) // the transport ends the dial in its own time
	})
}

func TestNobodyGetsTheAnswerToAnother(t *testing.T) { // L7
	s := serveRaw(t, nil, func(conn net.Conn, path string) bool {
		n := rand.IntN(20)
		body := strings.Repeat(path, 1+n*n)
		_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return err == nil && n > 0 // now and then it is closed
	})
	pools := poolsOf(t, NewTransport())
	var asking sync.WaitGroup
	for n := range 16 {
		asking.Go(func() {
			for i := range 150 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					time.AfterFunc(time.Duration(rand.IntN(200))*time.Microsecond, cancel)
				}
				path := fmt.Sprintf("/%d.%d", n, i)
				got, err := ask(ctx, t, pools, s.url+path)
				if err == nil && strings.ReplaceAll(got, path, "") != "" || err != nil && ctx.Err() == nil {
					t.Errorf("%s is answered with %.60q, %v", path, got, err)
				}
				cancel()
			}
		})
	}
	asking.Wait()
}
