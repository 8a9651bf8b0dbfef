package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	Handlers("127.0.0.1:4711")[path].ServeHTTP(w, r)
	answer := w.Result()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func TestFilesReferencedByPageAreServed(t *testing.T) {
	handlers := Handlers("")
	for _, text := range []string{string(index), string(script)} {
		for _, match := range regexp.MustCompile(`["'](/page/[^"']+)["']`).FindAllStringSubmatch(text, -1) {
			if handlers[match[1]] == nil {
				t.Errorf("no handler serves %s", match[1])
			}
		}
	}
	for path := range handlers {
		if answer, body := get(t, path); answer.StatusCode != http.StatusOK || body == "" {
			t.Errorf("%s returned %s with %d bytes", path, answer.Status, len(body))
		}
	}
}

func TestQuickStartShowsActualGRPCPort(t *testing.T) {
	if _, start := get(t, "/page/start.md"); strings.Contains(start, "50051") || !strings.Contains(start, "EASEL_ADDR=localhost:4711") {
		t.Errorf("the port is not in\n%s", start)
	}
}

func TestContentSecurityPolicyAllowsOnlyOwnHost(t *testing.T) {
	answer, _ := get(t, "/")
	if got := answer.Header.Get("Content-Security-Policy"); got != Policy {
		t.Errorf("Content-Security-Policy is %q, want the constant Policy", got)
	}
	for directive := range strings.SplitSeq(Policy, "; ") {
		for _, source := range strings.Fields(directive)[1:] {
			allowed := source == "'none'" || source == "'self'" || source == "data:" || source == "blob:" ||
				source == "'unsafe-inline'" && strings.HasPrefix(directive, "style-src")
			if !allowed {
				t.Errorf("the policy allows %s", directive)
			}
		}
	}
}

func TestReferenceScriptIsCompressedOnlyForGzipClients(t *testing.T) {
	compressed, small := get(t, "/page/scalar.js", "Accept-Encoding", "gzip, br")
	unpacked, script := get(t, "/page/scalar.js")
	if compressed.Header.Get("Content-Encoding") != "gzip" || unpacked.Header.Get("Content-Encoding") != "" {
		t.Errorf("Content-Encoding is %q and %q, want gzip and none", compressed.Header.Get("Content-Encoding"), unpacked.Header.Get("Content-Encoding"))
	}
	if len(small)*3 > len(script) || !strings.Contains(script, "createApiReference") {
		t.Errorf("the script has %d bytes compressed, want at most a third of %d", len(small), len(script))
	}
	if strings.Contains(script, "sourceMappingURL=standalone") {
		t.Error("the script references a file that no handler serves")
	}
}

func TestMatchingETagReturnsNotModified(t *testing.T) {
	first, _ := get(t, "/page/scalar.js", "Accept-Encoding", "gzip")
	again, body := get(t, "/page/scalar.js", "Accept-Encoding", "gzip", "If-None-Match", first.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("got %s with %d bytes, want 304 without a body", again.Status, len(body))
	}
}

// The notice contains the licenses for exactly one version of the script. It must be the version that is served.
func TestLicenseNoticeMatchesServedScriptVersion(t *testing.T) {
	manifest, err := os.ReadFile("../../tools/page/package.json")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`"@scalar/api-reference": "([\d.]+)"`).FindSubmatch(manifest)
	if version == nil {
		t.Fatalf("no version in %s", manifest)
	}
	if !strings.Contains(string(notice), "@scalar/api-reference "+string(version[1])+"\n") {
		t.Errorf("notice.txt is not for version %s; run make page-licences", version[1])
	}
	_, script := get(t, "/page/scalar.js")
	if !strings.Contains(script, string(version[1])) {
		t.Errorf("the script is not version %s: run make generate", version[1])
	}
}
