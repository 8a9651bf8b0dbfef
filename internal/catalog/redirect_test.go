package catalog

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A catalog may redirect downloads to a bucket on another host. The client follows such a redirect
// only to hosts that its configuration names.
func TestDownloadRedirectIsFollowedOnlyToConfiguredHosts(t *testing.T) {
	file := bytes.Repeat([]byte("picture"), 10_000)
	seen := 0
	bucket := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen++
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || r.Header.Get("User-Agent") != "easel" {
			t.Errorf("the bucket received %v", r.Header)
		}
		switch r.URL.Path {
		case "/refused":
			http.Error(w, "expired", http.StatusForbidden)
		case "/again":
			http.Redirect(w, r, "/file?signature=s3cret", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		default:
			http.ServeContent(w, r, "x.png", time.Time{}, bytes.NewReader(file))
		}
	}))
	bucket.Config.ErrorLog = log.New(io.Discard, "", 0)
	bucket.StartTLS()
	defer bucket.Close()
	at := strings.TrimPrefix(bucket.URL, "https://")
	_, port, _ := strings.Cut(at, ":")
	for name, test := range map[string]struct {
		hosts    []string
		location string
		kind     Kind // expected kind of the error; zero means that the result is downloaded
		reaches  bool
	}{
		"allowed host":                 {[]string{"other.example", at}, bucket.URL + "/file?signature=s3cret", 0, true},
		"two redirects":                {[]string{at}, bucket.URL + "/again", 0, true},
		"redirect loop":                {[]string{at}, bucket.URL + "/round", KindRedirect, true},
		"no allowed host":              {nil, bucket.URL + "/file", KindRedirect, false},
		"host allowed on another port": {[]string{"127.0.0.1"}, bucket.URL + "/file", KindRedirect, false},
		"plain HTTP":                   {[]string{at}, "http://" + at + "/file", KindRedirect, false},
		"with a user":                  {[]string{at}, "https://me@" + at + "/file", KindRedirect, false},
		"host not in certificate":      {[]string{"localhost:" + port}, "https://localhost:" + port + "/file", KindUnavailable, false},
		"rejected by the bucket":       {[]string{at}, bucket.URL + "/refused", KindUnavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen = 0
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", test.location)
				w.WriteHeader(http.StatusFound)
			}))
			defer upstream.Close()
			client, err := New(Config{BaseURL: upstream.URL, ContentHosts: test.hosts})
			if err != nil {
				t.Fatal(err)
			}
			client.upstream.elsewhere.pool.base.TLSClientConfig = bucket.Client().Transport.(*http.Transport).TLSClientConfig
			opened, err := client.Content(t.Context(), Forwarded(NewSecret("key")), "g1", 7, "")
			if (seen > 0) != test.reaches {
				t.Errorf("the bucket received %d requests", seen)
			}
			if err != nil {
				if KindOf(err) != test.kind || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("%v", err)
				}
				return
			}
			defer opened.Body.Close()
			if got, err := io.ReadAll(opened.Body); test.kind != 0 || err != nil || !bytes.Equal(got, file[7:]) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestAPIKeysDoNotShareRedirectConnections(t *testing.T) {
	var conns sync.Map // remote addresses of all connections
	bucket := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { conns.Store(r.RemoteAddr, true) }))
	defer bucket.Close()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, bucket.URL+"/"+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), http.StatusFound)
	}))
	defer upstream.Close()
	client, err := New(Config{BaseURL: upstream.URL, ContentHosts: []string{strings.TrimPrefix(bucket.URL, "https://")}})
	if err != nil {
		t.Fatal(err)
	}
	client.upstream.elsewhere.pool.base.TLSClientConfig = bucket.Client().Transport.(*http.Transport).TLSClientConfig
	for n := range 6 {
		opened, err := client.Content(t.Context(), Forwarded(NewSecret(string(rune('a'+n%2)))), "g1", 0, "")
		if err != nil {
			t.Fatal(err)
		}
		_ = opened.Body.Close()
	}
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n != 2 {
		t.Errorf("two API keys had %d connections", n)
	}
}

func TestContentHostMustBeDNSName(t *testing.T) {
	for host, ok := range map[string]bool{
		"bucket.example": true, "bucket.example:8443": true, "": false, "https://bucket.example": false, "bucket.example/a": false,
		"*.example": false, "bücket.example": false, "bucket。example": false,
	} {
		if err := CheckContentHost(host); (err == nil) != ok {
			t.Errorf("%q: %v", host, err)
		}
	}
}
