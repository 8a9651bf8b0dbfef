package catalog

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// pathTransport notes the paths of requests, as they go over the wire.
type pathTransport struct{ paths []string }

func (p *pathTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	p.paths = append(p.paths, r.URL.RequestURI())
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"id":"g","status":"queued"}`)),
	}, nil
}

func FuzzAnIDIsOneSegmentOfItsPathOrRefused(f *testing.F) { // I3
	for _, id := range []string{"gen_1", "../me", "a/b", "%2f", "a%2e%2e", ".", "..", "a\r\nb", "a\x00b", "", "ü", "a?b#c", "a;b", strings.Repeat("x", 10_000)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		wire := &pathTransport{}
		client := newTestClient(t, wire)
		cred := Forwarded(NewSecret(testKey))
		_, err := client.Generation(t.Context(), cred, id)
		err = errors.Join(err, client.Delete(t.Context(), cred, id))
		if err != nil && len(wire.paths) > 1 {
			t.Errorf("%q went upstream as %q and failed: %v", id, wire.paths, err)
		}
		for _, path := range wire.paths {
			segment, ok := strings.CutPrefix(path, client.base.EscapedPath()+"/generations/")
			plain, err := url.PathUnescape(segment)
			if !ok || err != nil || strings.ContainsAny(segment, "/?#") || plain != id || plain == "." || plain == ".." {
				t.Errorf("%q went upstream as %q", id, path)
			}
		}
	})
}
