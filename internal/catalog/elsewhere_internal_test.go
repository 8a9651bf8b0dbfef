package catalog

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAHostNeverLeadsToAnAddressThatIsNotPublic(t *testing.T) {
	e := newElsewhere([]string{"bucket.example", "10.0.0.9"}, NewTransport(), untraced)
	for address, hidden := range map[string]bool{
		"93.184.215.14": false, "2606:2800:21f::1": false, "2001:4860:4860::8888": false,
		"127.0.0.1": true, "10.1.2.3": true, "169.254.169.254": true, "100.100.100.200": true, "198.18.0.1": true,
		"192.0.0.192": true, "255.255.255.255": true, "0.0.0.0": true, "0.1.2.3": true, "224.0.0.1": true, "192.88.99.1": true,
		"::1": true, "fd00::1": true, "fe80::1": true, "64:ff9b::a9fe:a9fe": true, "::ffff:10.0.0.1": true,
		"::a9fe:a9fe": true, "::ffff:0:a9fe:a9fe": true, "2002:a9fe:a9fe::1": true, "2001:0:a9fe:a9fe::1": true, "fec0::1": true,
		"10.0.0.9": false, // which is named itself
	} {
		if got := e.isHidden(&net.TCPAddr{IP: net.ParseIP(address), Port: 443}); got != hidden {
			t.Errorf("%s is hidden: %v", address, got)
		}
	}
}

// reached is a connection to an address.
type reached struct {
	net.Conn
	at string
}

func (r reached) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(r.at), Port: 443} }

func TestWhateverIsDialledForAHostIsCheckedButItsProxy(t *testing.T) {
	for name, test := range map[string]struct {
		host, proxy string
		dials       string
		hidden      bool
	}{
		"in letters of its own": {host: "bücket.example", dials: "xn--bcket-kva.example:443", hidden: true},
		"with a wide dot":       {host: "bucket。example", dials: "bucket.example:443", hidden: true},
		"with a port":           {host: "bucket.example:8443", dials: "bucket.example:8443", hidden: true},
		"by a proxy":            {host: "bucket.example", proxy: "http://proxy.example:3128", dials: "proxy.example:3128"},
		"by a proxy of TLS":     {host: "bucket.example", proxy: "https://proxy.example", dials: "proxy.example:443"},
		"by a proxy of SOCKS":   {host: "bucket.example", proxy: "socks5://proxy.example", dials: "proxy.example:1080"},
	} {
		t.Run(name, func(t *testing.T) {
			transport, dialled := NewTransport(), ""
			transport.DialContext = func(_ context.Context, _, addr string) (net.Conn, error) {
				dialled = addr
				near, far := net.Pipe()
				_ = far.Close()
				return reached{near, "169.254.169.254"}, nil
			}
			transport.Proxy = nil
			if to, err := url.Parse(test.proxy); test.proxy != "" && err == nil {
				transport.Proxy = http.ProxyURL(to)
			}
			e := newElsewhere([]string{test.host}, transport, untraced)
			_, err := e.get(t.Context(), "Bearer key", &request{op: opContent}, &url.URL{Scheme: "https", Host: test.host, Path: "/file"})
			if hidden := KindOf(err) == KindRedirect; hidden != test.hidden || dialled != test.dials {
				t.Errorf("%s is dialled, and hidden: %v (%v)", dialled, hidden, err)
			}
		})
	}
	for _, host := range []string{"bücket.example", "bucket。example"} {
		if CheckContentHost(host) == nil {
			t.Errorf("%s may be named", host)
		}
	}
}

// slowBucket sends no byte of /slow, and counts who has asked for it.
type slowBucket struct {
	*httptest.Server

	mu    sync.Mutex
	slow  int
	users map[string]string // the API keys by connection
	mixed bool              // two API keys have had one connection
}

func (b *slowBucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	user := r.URL.Query().Get("user")
	b.mixed = b.mixed || b.users[r.RemoteAddr] != "" && b.users[r.RemoteAddr] != user
	b.users[r.RemoteAddr] = user
	if r.URL.Path == "/slow" {
		b.slow++
	}
	b.mu.Unlock()
	w.Header().Set("Content-Length", "5")
	w.WriteHeader(http.StatusOK)
	if r.URL.Path == "/slow" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, "bytes")
}

// startSlowBucket starts a bucket, and a client of a catalog that sends readers of GENERATION there, to /GENERATION. It has
// so many places.
func startSlowBucket(t *testing.T, places int) (*slowBucket, *Client) {
	t.Helper()
	b := &slowBucket{users: map[string]string{}}
	b.Server = httptest.NewUnstartedServer(b)
	b.Config.ErrorLog = log.New(io.Discard, "", 0)
	b.StartTLS()
	t.Cleanup(b.Close)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := strings.Split(r.URL.Path, "/")[2]
		w.Header().Set("Location", b.URL+"/"+id+"?user="+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(upstream.Close)
	client, err := New(Config{BaseURL: upstream.URL})
	if err != nil {
		t.Fatal(err)
	}
	transport := NewTransport()
	transport.MaxConnsPerHost = places
	transport.TLSClientConfig = &tls.Config{RootCAs: b.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12}
	client.upstream.elsewhere = newElsewhere([]string{strings.TrimPrefix(b.URL, "https://")}, transport, untraced)
	t.Cleanup(client.upstream.elsewhere.pool.CloseIdleConnections)
	return b, client
}

func (b *slowBucket) hasSlow(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slow >= n
}

func TestUnreadResultsOfABucketHoldUpNoOtherOwner(t *testing.T) {
	const places = 32
	b, client := startSlowBucket(t, places)
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	held := Held(func() Secret { return NewSecret("held-key") })
	held.Owner = "shop"
	for range places {
		all.Go(func() {
			opened, err := client.Content(ctx, held, "slow", 0, "")
			if err != nil {
				return
			}
			<-ctx.Done()
			_ = opened.Body.Close()
		})
	}
	for end := time.Now().Add(30 * time.Second); !b.hasSlow(places - places/16); {
		if time.Now().After(end) {
			t.Fatalf("only %d downloads have begun", b.slow)
		}
		time.Sleep(time.Millisecond)
	}
	neighbour := held
	neighbour.Owner = "press"
	for name, cred := range map[string]Credential{"another owner": neighbour, "another API key": Forwarded(NewSecret("other-key"))} {
		got, err := contentOf(before(t, 20*time.Second), client, cred, "fast")
		if err != nil || got != "bytes" {
			t.Errorf("%s is answered with %q, %v", name, got, err)
		}
	}
	if _, err := contentOf(before(t, 200*time.Millisecond), client, held, "fast"); KindOf(err) != KindBusy && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more of the same owner ends with %v", err)
	}
	if b.mixed {
		t.Error("two API keys had one connection")
	}
}

func contentOf(ctx context.Context, client *Client, cred Credential, id string) (string, error) {
	opened, err := client.Content(ctx, cred, id, 0, "")
	if err != nil {
		return "", err
	}
	defer opened.Body.Close()
	got, err := io.ReadAll(opened.Body)
	return string(got), err
}
