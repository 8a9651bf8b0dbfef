package catalog

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func FuzzIDIsOnePathSegmentOrRejected(f *testing.F) {
	for _, seed := range []string{
		"gen_1", "../me", "a/b", "%2f", "%2e%2e", "a\r\nX: 1", "a\x00b", "", "..", `..\me`, "画", "a?b=c#d", "a;b", "//", ":wait", strings.Repeat("x", 257), "\xff", "a b+c%20", "...", "a..b", `a\b`, "~", ":",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		var sent []*http.Request
		c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, r)
			return reply(r, http.StatusBadRequest, nil, ""), nil
		}))
		_, err := c.Generation(t.Context(), testCredential, id)
		_, _ = c.Content(t.Context(), testCredential, id, 0, "")
		_ = c.Delete(t.Context(), testCredential, id)
		_, _ = c.Model(t.Context(), testCredential, id)
		if e := asError(t, err); len(sent) == 0 && len(e.Violations) == 0 {
			t.Errorf("%q: nothing was sent, but %v has no violations", id, err)
		}
		for _, r := range sent {
			checkTarget(t, r, id)
		}
	})
}

// checkTarget parses a request's target as a catalog does. It checks the route and compares the identifier in the
// target with id.
func checkTarget(t *testing.T, r *http.Request, id string) {
	t.Helper()
	target, err := url.ParseRequestURI(r.URL.RequestURI())
	if err != nil {
		t.Fatalf("%q was sent to %q: %v", id, r.URL.RequestURI(), err)
	}
	const base = "/api/v1/api/catalog/"
	rest, under := strings.CutPrefix(target.EscapedPath(), base)
	if !under || r.URL.Host != "catalog.example" || r.URL.Scheme != "https" {
		t.Fatalf("%q was sent to %s", id, r.URL)
	}
	if r.Pattern == opModel {
		if query := target.Query(); rest != "models/detail" || len(query) != 1 || query.Get("id") != id {
			t.Errorf("model %q was sent to %s", id, target)
		}
		return
	}
	parts := strings.Split(rest, "/")
	content := r.Pattern == opContent
	if len(parts) != 2+map[bool]int{true: 1}[content] || parts[0] != "generations" || content && parts[2] != "content" || target.RawQuery != "" {
		t.Fatalf("%q was sent to %s", id, target)
	}
	if got, err := url.PathUnescape(parts[1]); err != nil || got != id || parts[1] == "." || parts[1] == ".." {
		t.Errorf("%q: the path segment is decoded as %q, %v", id, got, err)
	}
}
