package catalog

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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

// rawServer answers each request as answer says, and counts connections. The connection is
// closed where answer says that it is not to go on.
type rawServer struct {
	url   string
	conns atomic.Int32
	gone  atomic.Int32
}

func serveRaw(t *testing.T, answer func(conn net.Conn, path string) (goOn bool)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + l.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			serving.Go(func() {
				defer s.gone.Add(1)
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
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

func directFor(t *testing.T) *direct {
	t.Helper()
	base := NewTransport()
	d := newDirect(base)
	t.Cleanup(func() { d.idle.close(); base.CloseIdleConnections() })
	return d
}

// ask gives the status and the body of an answer.
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
	return fmt.Sprint(resp.StatusCode, " ", resp.Header, " ", string(body)), err
}

// answers are what a server may send, and how often two requests then need two connections.
var answers = map[string]struct {
	text   string
	closes bool // the server closes the connection behind it
	conns  int32
}{
	"a length":               {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nok", conns: 1},
	"chunks":                 {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;x=y\r\nyes\r\n0\r\nTrailer: z\r\n\r\n", conns: 1},
	"nothing":                {text: "HTTP/1.1 204 No Content\r\n\r\n", conns: 1},
	"a length of nothing":    {text: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", conns: 1},
	"hints before it":        {text: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", conns: 1},
	"a refusal":              {text: "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", conns: 1},
	"no such status":         {text: "HTTP/1.1 099 What\r\nContent-Length: 40\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", conns: 2},
	"a redirect":             {text: "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", conns: 1},
	"the end of all":         {text: "HTTP/1.1 200 OK\r\n\r\nok", closes: true, conns: 2},
	"a close":                {text: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", conns: 2},
	"the old protocol":       {text: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", conns: 2},
	"more than it says":      {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged", conns: 2},
	"less than it says":      {text: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", closes: true, conns: 2},
	"chunks that break off":  {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok", closes: true, conns: 2},
	"no number of bytes":     {text: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok", closes: true, conns: 2},
	"two lengths":            {text: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", closes: true, conns: 2},
	"half a header":          {text: "HTTP/1.1 200 OK\r\nContent-Le", closes: true, conns: 2},
	"no HTTP":                {text: "SSH-2.0-OpenSSH_9.7\r\n", closes: true, conns: 2},
	"no answer":              {text: "", closes: true, conns: 2},
	"a header without end":   {text: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70<<10), closes: true, conns: 2},
	"hints without end":      {text: strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 1000)+"\r\n\r\n", 80), closes: true, conns: 2},
	"a switch of protocols":  {text: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", closes: true, conns: 2},
	"a long body":            {text: "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("abc", 100000), conns: 1},
	"a header of many lines": {text: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 500) + "Content-Length: 2\r\n\r\nok", conns: 1},
}

func TestTheDirectWayReadsEveryAnswerAsTheStockTransportDoes(t *testing.T) { // U3 U4 U17 U18
	for name, want := range answers {
		t.Run(name, func(t *testing.T) {
			s := serveRaw(t, func(conn net.Conn, _ string) bool {
				_, err := io.WriteString(conn, want.text)
				return err == nil && !want.closes
			})
			d := directFor(t)
			stock, stockErr := ask(t.Context(), t, d.base, s.url+"/a")
			d.base.CloseIdleConnections()
			before := s.conns.Load()
			for range 2 {
				got, err := ask(t.Context(), t, d, s.url+"/a")
				if name == "a switch of protocols" {
					if err == nil {
						t.Error("it is taken for an answer")
					}
				} else if got != stock || (err == nil) != (stockErr == nil) {
					t.Errorf("got %.80q, %v; by the stock transport %.80q, %v", got, err, stock, stockErr)
				}
			}
			if got := s.conns.Load() - before; got != want.conns {
				t.Errorf("two requests took %d connections, want %d", got, want.conns)
			}
			if len(d.room) != 0 {
				t.Errorf("%d places are still taken", len(d.room))
			}
		})
	}
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"

func TestWhatComesWhileNobodyAsksAnswersNobody(t *testing.T) { // L7
	for name, late := range map[string]string{"an answer too many": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged", "a byte": "x"} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan bool, 1)
			s := serveRaw(t, func(conn net.Conn, path string) bool {
				_, err := io.WriteString(conn, fine)
				if path == "/first" {
					time.Sleep(10 * time.Millisecond) // until the connection is idle
					_, err = io.WriteString(conn, late)
					sent <- true
				}
				return err == nil
			})
			d := directFor(t)
			for _, path := range []string{"/first", "/second"} {
				if got, err := ask(t.Context(), t, d, s.url+path); err != nil || !strings.HasSuffix(got, "fine") {
					t.Errorf("%s is answered with %q, %v", path, got, err)
				}
				if path == "/first" {
					<-sent
				}
			}
			if s.conns.Load() != 2 {
				t.Error("the connection was used again")
			}
		})
	}
}

func TestAConnectionThatWasClosedWhileIdleCostsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // over a pipe nothing tells before the request is written
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) { _, _ = io.WriteString(conn, fine) }}
		base := NewTransport()
		base.DialContext = w.dial
		d := newDirect(base)
		defer d.idle.close()
		for n := range 3 {
			if _, err := ask(t.Context(), t, d, "http://catalog.example/a"); err != nil || w.count() != n+1 {
				t.Errorf("request %d: %v after %d that arrived", n, err, w.count())
			}
		}
	})
}

func TestARequestThatIsTakenBackEndsAtOnceAndLeavesNothing(t *testing.T) { // U2 U3
	for name, begun := range map[string]string{"before the answer": "", "in its header": "HTTP/1.1 200", "in its body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan bool, 1)
			s := serveRaw(t, func(conn net.Conn, _ string) bool {
				_, _ = io.WriteString(conn, begun)
				arrived <- true
				_, _ = conn.Read(make([]byte, 1)) // until it is closed
				return false
			})
			d := directFor(t)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-arrived; cancel() }()
			if got, err := ask(ctx, t, d, s.url+"/a"); err == nil {
				t.Errorf("answered with %q", got)
			}
			for s.gone.Load() == 0 { // the server hears of it
				time.Sleep(time.Millisecond)
			}
			if len(d.room) != 0 || d.idle.take(s.url) != nil {
				t.Error("a place is taken, or the connection is kept")
			}
		})
	}
}

func TestARequestWaitsForAPlaceAsLongAsItMay(t *testing.T) {
	d := directFor(t)
	for range cap(d.room) {
		d.room <- struct{}{}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errSilent)
	if _, err := ask(ctx, t, d, "http://127.0.0.1:1/a"); !errors.Is(err, errSilent) {
		t.Errorf("got %v", err)
	}
}

func TestIdleConnectionsAreClosedInTheirTimeAndAreNotTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := &wire{reused: true, answer: func(_ int, _ *http.Request, conn net.Conn) {
			<-release
			_, _ = io.WriteString(conn, fine)
		}}
		base := NewTransport()
		base.DialContext = w.dial
		d := newDirect(base)
		var asking sync.WaitGroup
		for range base.MaxIdleConnsPerHost + 5 {
			asking.Go(func() { _, _ = ask(t.Context(), t, d, "http://catalog.example/a") })
		}
		synctest.Wait()
		close(release)
		asking.Wait()
		kept := func() int {
			d.idle.mu.Lock()
			defer d.idle.mu.Unlock()
			return len(d.idle.all)
		}
		if kept() != base.MaxIdleConnsPerHost {
			t.Errorf("%d are kept", kept())
		}
		time.Sleep(base.IdleConnTimeout / 2)
		if _, err := ask(t.Context(), t, d, "http://catalog.example/a"); err != nil {
			t.Error(err)
		}
		time.Sleep(base.IdleConnTimeout/2 + time.Second)
		if kept() != 1 {
			t.Errorf("%d are kept after a while, want the one that was used", kept())
		}
		time.Sleep(base.IdleConnTimeout)
		if kept() != 0 {
			t.Errorf("%d are kept in the end", kept())
		}
	})
}

func TestTheDirectWayEncryptsAndKnowsWhomItSpeaksTo(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	for name, config := range map[string]*tls.Config{
		"": {RootCAs: trusted}, "an unknown authority": nil, "another name": {RootCAs: trusted, ServerName: "catalog.example.org"},
	} {
		base := NewTransport()
		base.TLSClientConfig = config
		var conns atomic.Int32
		dial := base.DialContext
		base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conns.Add(1)
			return dial(ctx, network, addr)
		}
		d := newDirect(base)
		for range 3 {
			if got, err := ask(t.Context(), t, d, server.URL+"/a"); (err == nil) != (name == "") || err == nil && !strings.HasSuffix(got, " /a") {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
		if name == "" && conns.Load() != 1 {
			t.Errorf("three requests took %d connections", conns.Load())
		}
		d.idle.close()
	}
}

func TestOnlyWhatReadsGoesTheDirectWay(t *testing.T) {
	base := NewTransport()
	apart := KeepApart(base)
	proxied := NewTransport()
	proxied.Proxy = http.ProxyFromEnvironment
	request := func(method, op, url string, body io.Reader) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), method, url, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Pattern = op
		return r
	}
	for _, c := range []struct {
		by   *Apart
		r    *http.Request
		want http.RoundTripper
	}{
		{apart, request(http.MethodGet, opGeneration, "http://h/a", nil), apart.reads},
		{apart, request(http.MethodGet, opContent, "http://h/a", nil), apart.content},
		{apart, request(http.MethodPost, opCreate, "http://h/a", strings.NewReader("{}")), apart.calls},
		{apart, request(http.MethodDelete, opDelete, "http://h/a", nil), apart.calls},
		{apart, request(http.MethodGet, opGeneration, "http://[fe80::1%25eth0]/a", nil), apart.calls},
		{apart, request(http.MethodGet, opGeneration, "http://bücher.example/a", nil), apart.calls},
		{KeepApart(proxied), request(http.MethodGet, opGeneration, "http://h/a", nil), proxied},
	} {
		if got := c.by.set(c.r); got != c.want {
			t.Errorf("%s %s goes by %T %p", c.r.Method, c.r.URL, got, got)
		}
	}
}

func TestNobodyGetsTheAnswerToAnother(t *testing.T) { // L7
	s := serveRaw(t, func(conn net.Conn, path string) bool {
		n := rand.IntN(20)
		body := strings.Repeat(path, 1+n*n)
		_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return err == nil && n > 0 // now and then it is closed
	})
	d := directFor(t)
	var asking sync.WaitGroup
	for n := range 16 {
		asking.Go(func() {
			for i := range 150 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					time.AfterFunc(time.Duration(rand.IntN(200))*time.Microsecond, cancel)
				}
				path := fmt.Sprintf("/%d.%d", n, i)
				got, err := ask(ctx, t, d, s.url+path)
				_, body, _ := strings.Cut(got, "] ")
				if err == nil && strings.ReplaceAll(body, path, "") != "" || err != nil && ctx.Err() == nil {
					t.Errorf("%s is answered with %.60q, %v", path, got, err)
				}
				cancel()
			}
		})
	}
	asking.Wait()
	if len(d.room) != 0 {
		t.Errorf("%d places are still taken", len(d.room))
	}
}

func TestAConnectionServesOneKeyAlone(t *testing.T) { // L7
	s := serveRaw(t, func(conn net.Conn, _ string) bool {
		_, err := io.WriteString(conn, fine)
		return err == nil
	})
	d := directFor(t)
	for n := range 12 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", fmt.Sprint("Bearer ", n%3))
		resp, err := d.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
	}
	if n := s.conns.Load(); n != 3 {
		t.Errorf("three keys had %d connections", n)
	}
}
