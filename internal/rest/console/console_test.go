package console

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	handler := Handlers()[path]
	if handler == nil {
		t.Fatalf("%s is not served", path)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func TestFilesHaveContentTypeAndSecurityPolicy(t *testing.T) {
	for address := range Handlers() {
		w := get(t, address)
		want := mediaTypes[path.Ext(address)]
		if address == Path {
			want = mediaTypes[".html"]
		}
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got == "" || got != want {
			t.Errorf("%s: status %d, type %q", address, w.Code, got)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != Policy {
			t.Errorf("%s has the policy %q", address, got)
		}
	}
}

func TestSecurityPolicyAllowsOnlyOwnHost(t *testing.T) {
	for directive := range strings.SplitSeq(Policy, "; ") {
		for _, source := range strings.Fields(directive)[1:] {
			if source != "'none'" && source != "'self'" && (source != "blob:" || !strings.HasPrefix(directive, "img-src")) {
				t.Errorf("the policy allows %s", directive)
			}
		}
	}
}

// namespace is the only URL that the console's files may contain. It identifies SVG elements, and browsers do not load
// it.
const namespace = "http://www.w3.org/2000/svg"

func TestConsoleFilesReferOnlyToServedFiles(t *testing.T) {
	foreign := regexp.MustCompile(`(?i)\b[a-z]+://[^\s'"]*|["'(]//[a-z][^\s'"]*`)
	named := regexp.MustCompile(`["'](/console/[^"'$]+|\./[^"'$]+)["']`)
	for address := range Handlers() {
		body := get(t, address).Body.String()
		for _, found := range foreign.FindAllString(body, -1) {
			if found != namespace {
				t.Errorf("%s refers to the external URL %s", address, found)
			}
		}
		for _, match := range named.FindAllStringSubmatch(body, -1) {
			if target := path.Join(Path, strings.TrimPrefix(match[1], Path)); Handlers()[target] == nil {
				t.Errorf("%s refers to %s, which is not served", address, match[1])
			}
		}
	}
}

// maxLines is the maximum number of lines of the console's code, without SVG files. An engineer must be able to read
// the code in an hour.
const maxLines = 1200

func TestConsoleCodeStaysBelowLineLimit(t *testing.T) {
	lines := 0
	for address := range Handlers() {
		if path.Ext(address) != ".svg" {
			lines += bytes.Count(get(t, address).Body.Bytes(), []byte("\n"))
		}
	}
	if lines > maxLines || lines < 100 {
		t.Errorf("the console has %d lines; the maximum is %d", lines, maxLines)
	}
}

func TestUnchangedFileIsNotSentToBrowserAgain(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, nil)
	r.Header.Set("If-None-Match", get(t, Path).Header().Get("ETag"))
	w := httptest.NewRecorder()
	Handlers()[Path].ServeHTTP(w, r)
	if w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("got status %d with %d bytes, want 304 without a body", w.Code, w.Body.Len())
	}
}
