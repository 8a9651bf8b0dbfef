package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/easel-grpc/easel/internal/ledger"
)

// proveAda accepts the token of the operator ada and rejects the token of a caller that is not an operator.
func proveAda(_ context.Context, authorization []string) (string, error) {
	switch strings.Join(authorization, ",") {
	case "Bearer ada-token":
		return "ada", nil
	case "Bearer poster-token":
		return "", status.Error(codes.PermissionDenied, "no operator")
	}
	return "", status.Error(codes.Unauthenticated, "nobody")
}

func TestOperatorRoutesAreServedOnlyToOperators(t *testing.T) {
	browser := &http.Request{Header: http.Header{}}
	browser.SetBasicAuth("whoever", "ada-token")
	none, caller, operator := http.Header{}, http.Header{"Authorization": {"Bearer poster-token"}}, http.Header{"Authorization": {"Bearer ada-token"}}
	later := func(context.Context, []string) (string, error) { return "", status.Error(codes.Unavailable, "later") }
	for name, test := range map[string]struct {
		config Config
		header http.Header
		want   int
		by     string
	}{
		"no token":                       {Config{Prove: proveAda}, none, 401, ""},
		"a caller":                       {Config{Prove: proveAda}, caller, 403, ""},
		"an operator":                    {Config{Prove: proveAda}, operator, 200, "ada"},
		"an operator in a browser":       {Config{Prove: proveAda}, browser.Header, 200, "ada"},
		"remote, without a callers file": {Config{}, operator, 403, ""},
		"tokens can't be checked":        {Config{Prove: later}, operator, 503, ""},
	} {
		w, r, served, by := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), false, ledger.By{}
		r.Header = test.header
		test.config.forOperators(func(_ http.ResponseWriter, r *http.Request) { served, by = true, byOf(r.Context()) })(w, r)
		if w.Code != test.want || served != (test.want == http.StatusOK) || by.Actor != test.by || (by.Origin == "") != (test.by == "") {
			t.Errorf("%s: status %d, served %v, by %+v", name, w.Code, served, by)
		}
	}
}

func TestOperatorRoutesAreLoopbackOnlyWithoutCallersFile(t *testing.T) {
	_, source := quietStatus()
	handler := New(Config{Status: source, Orders: Orders{Ledger: openLabeled(t)}, Addr: "0.0.0.0:9464"})
	answer := func(method, path, peer string, header ...string) int {
		r := httptest.NewRequest(method, "http://localhost:9464"+path, nil)
		r.RemoteAddr = peer
		for n := 0; n < len(header); n += 2 {
			r.Header.Set(header[n], header[n+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	closed := []string{
		"GET /debug/pprof/", "GET /debug/pprof/goroutine?debug=1", "GET /debug/pprof/cmdline", "GET /debug/pprof/symbol",
		"GET /audit", "GET /orders", "GET /events", "GET /status.json",
	}
	for _, route := range closed {
		method, path, _ := strings.Cut(route, " ")
		for _, header := range [][]string{nil, {"X-Forwarded-For", "127.0.0.1"}, {"Forwarded", "for=127.0.0.1"}, {"X-Real-Ip", "127.0.0.1"}, {"Authorization", "Bearer x"}} {
			if code := answer(method, path, "192.0.2.1:5", header...); code != http.StatusForbidden {
				t.Errorf("%s with %q from another machine: status %d", route, header, code)
			}
		}
		for _, peer := range []string{"127.0.0.1:5", "[::1]:5", "127.9.9.9:5"} {
			if code := answer(method, path, peer); code != http.StatusOK {
				t.Errorf("%s from %s: status %d", route, peer, code)
			}
			for _, header := range [][]string{{"X-Forwarded-For", "203.0.113.9"}, {"Forwarded", "for=203.0.113.9"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
				if code := answer(method, path, peer, header...); code != http.StatusForbidden {
					t.Errorf("%s with %q from %s: status %d", route, header, peer, code)
				}
			}
		}
	}
	for _, path := range []string{"/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1"} {
		if code := answer(http.MethodGet, path, "192.0.2.1:5"); code != http.StatusForbidden {
			t.Errorf("%s from another machine: status %d", path, code)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/", "/status.js"} {
		if code := answer(http.MethodGet, path, "192.0.2.1:5"); code != http.StatusOK {
			t.Errorf("%s from another machine: status %d", path, code)
		}
	}
}

func TestOnlyProbesMetricsAndStatusPageArePublic(t *testing.T) {
	var open []string
	for pattern, isOpen := range Routes() {
		if isOpen {
			open = append(open, pattern)
		}
	}
	slices.Sort(open)
	if want := []string{"GET /healthz", "GET /metrics", "GET /readyz", "GET /status.css", "GET /status.js", "GET /{$}"}; !slices.Equal(open, want) {
		t.Errorf("the open routes are %q", open)
	}
}

func TestErasureRequiresOperatorAndIsAudited(t *testing.T) {
	led := openLabeled(t, "gen_1")
	served, erasure := Orders{Ledger: led}, Erasure{Generation: "gen_1"}
	if done, err := served.serveErasure(t.Context(), erasure); err == nil || done.Erased != 0 { // called directly, because the route rejects a request without an operator
		t.Errorf("erasing without an operator returned %+v, %v", done, err)
	}
	if done, err := served.serveErasure(asAda(t), erasure); err != nil || done.Erased != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	lines, err := led.AuditLines(t.Context(), ledger.Position{}, 10)
	found, findErr := led.List(t.Context(), ledger.Filter{AnyState: true}, ledger.Position{}, 10)
	if findErr != nil || len(found) != 1 {
		t.Fatal(found, findErr)
	}
	if err != nil || len(lines) != 1 || lines[0].Became != `{"wanted":{"generation":"gen_1"},"erased":1,"orders":{"studio":["`+found[0].ID+`"]}}` {
		t.Errorf("the audit is %+v, %v", lines, err)
	}
}
