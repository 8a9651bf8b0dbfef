package catalog

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAContentHostIsADNSName(t *testing.T) {
	for host, ok := range map[string]bool{
		"bucket.example": true, "bucket.example:8443": true, "": false, "https://bucket.example": false, "bucket.example/a": false,
		"*.example": false, "bücket.example": false, "bucket。example": false,
	} {
		if err := CheckContentHost(host); (err == nil) != ok {
			t.Errorf("%q: %v", host, err)
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
	client.upstream.elsewhere = newElsewhere([]string{strings.TrimPrefix(b.URL, "https://")}, transport)
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
