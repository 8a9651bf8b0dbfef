package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// proveAda knows one operator, and one caller that is none.
func proveAda(_ context.Context, authorization []string) (string, error) {
	switch strings.Join(authorization, ",") {
	case "Bearer ada-token":
		return "ada", nil
	case "Bearer poster-token":
		return "", status.Error(codes.PermissionDenied, "no operator")
	}
	return "", status.Error(codes.Unauthenticated, "nobody")
}

// asked is what a route answers, and whether what it serves was asked.
func asked(c Config, need Need, header http.Header) (code int, served bool, by ledger.By) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header = header
	c.admit(need, func(_ http.ResponseWriter, r *http.Request) { served, by = true, byOf(r.Context()) })(w, r)
	return w.Code, served, by
}

func TestEachRouteIsServedToWhomItNeeds(t *testing.T) {
	basic := &http.Request{Header: http.Header{}}
	basic.SetBasicAuth("whoever", "ada-token")
	none, caller, operator := http.Header{}, http.Header{"Authorization": {"Bearer poster-token"}}, http.Header{"Authorization": {"Bearer ada-token"}}
	for name, test := range map[string]struct {
		config Config
		need   Need
		header http.Header
		want   int
		by     string
	}{
		"a probe":                            {Config{Prove: proveAda, Closed: true, Addr: "0.0.0.0:1"}, Open, none, 200, ""},
		"the page":                           {Config{Prove: proveAda, Addr: "0.0.0.0:1"}, Look, none, 200, ""},
		"the page that is closed":            {Config{Prove: proveAda, Closed: true, Addr: "127.0.0.1:1"}, Look, none, 401, ""},
		"the page for a browser":             {Config{Prove: proveAda, Closed: true, Addr: "127.0.0.1:1"}, Look, basic.Header, 200, "ada"},
		"orders for nobody":                  {Config{Prove: proveAda, Addr: "127.0.0.1:1"}, Read, none, 401, ""},
		"orders for a caller":                {Config{Prove: proveAda, Addr: "127.0.0.1:1"}, Read, caller, 403, ""},
		"orders for an operator":             {Config{Prove: proveAda, Addr: "127.0.0.1:1"}, Read, operator, 200, "ada"},
		"a change by nobody":                 {Config{Prove: proveAda, Addr: "127.0.0.1:1"}, Change, none, 401, ""},
		"a change by a caller":               {Config{Prove: proveAda, Addr: "127.0.0.1:1"}, Change, caller, 403, ""},
		"a change by an operator":            {Config{Prove: proveAda, Addr: "0.0.0.0:1"}, Change, operator, 200, "ada"},
		"a change without a file, elsewhere": {Config{Addr: "0.0.0.0:1"}, Change, operator, 403, ""},
		"orders without a file, elsewhere":   {Config{Addr: "192.0.2.1:1"}, Read, none, 403, ""},
		"a change while nobody can be proved": {Config{Addr: "127.0.0.1:1", Prove: func(context.Context, []string) (string, error) {
			return "", status.Error(codes.Unavailable, "later")
		}}, Change, operator, 503, ""},
	} {
		code, served, by := asked(test.config, test.need, test.header)
		if code != test.want || served != (test.want == http.StatusOK) || by.Actor != test.by || (by.Origin == "") != (test.by == "") {
			t.Errorf("%s: %d, served %v, by %+v", name, code, served, by)
		}
	}
}

func TestOnlyLoopbackPeersOperateWithoutACallersFile(t *testing.T) {
	_, source := quiet()
	handler, shutdown := New(Config{Status: source, LogLevel: &telemetry.Level{}, Orders: Orders{Ledger: labelled(t)}, Events: true, Addr: "0.0.0.0:9464"})
	defer shutdown()
	answer := func(method, path, peer string, header ...string) int {
		r := httptest.NewRequest(method, "http://localhost:9464"+path, nil)
		r.RemoteAddr = peer
		for n := 0; n < len(header); n += 2 {
			r.Header.Set(header[n], header[n+1])
		}
		if path == getServers {
			r.ProtoMajor = 2
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	closed := []string{
		"GET /debug/pprof/", "GET /debug/pprof/goroutine?debug=1", "GET /debug/pprof/cmdline", "GET /debug/pprof/symbol", "POST /debug/pprof/symbol",
		"GET /audit", "GET /orders", "GET /events", "PUT /loglevel?level=info", "POST " + getServers,
	}
	for _, route := range closed {
		method, path, _ := strings.Cut(route, " ")
		grpc := []string{"Content-Type", "application/grpc"}
		for _, header := range [][]string{nil, {"X-Forwarded-For", "127.0.0.1"}, {"Forwarded", "for=127.0.0.1"}, {"X-Real-Ip", "127.0.0.1"}, {"Authorization", "Bearer x"}} {
			if code := answer(method, path, "192.0.2.1:5", append(grpc, header...)...); code != http.StatusForbidden {
				t.Errorf("%s with %q of another machine: %d", route, header, code)
			}
		}
		for _, peer := range []string{"127.0.0.1:5", "[::1]:5", "127.9.9.9:5"} {
			if code := answer(method, path, peer, grpc...); code != http.StatusOK {
				t.Errorf("%s of %s: %d", route, peer, code)
			}
			for _, header := range [][]string{{"X-Forwarded-For", "203.0.113.9"}, {"Forwarded", "for=203.0.113.9"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
				if code := answer(method, path, peer, append(grpc, header...)...); code != http.StatusForbidden {
					t.Errorf("%s with %q of %s: %d", route, header, peer, code)
				}
			}
		}
	}
	for _, path := range []string{"/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1"} {
		if code := answer(http.MethodGet, path, "192.0.2.1:5"); code != http.StatusForbidden {
			t.Errorf("%s of another machine: %d", path, code)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/status.json"} {
		if code := answer(http.MethodGet, path, "192.0.2.1:5"); code != http.StatusOK {
			t.Errorf("%s of another machine: %d", path, code)
		}
	}
}

// getServers is the path of a call of channelz.
const getServers = "/grpc.channelz.v1.Channelz/GetServers"

func TestRoutesThatChangeSomethingNeedWhoMayChange(t *testing.T) {
	changing := map[string]bool{}
	for pattern, need := range Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		reads := method == http.MethodGet || path == "/debug/pprof/symbol"
		if reads == (need == Change) {
			t.Errorf("%s has the need %d", pattern, need)
		}
		changing[pattern] = need == Change
	}
	for _, known := range []string{"PUT /loglevel", "POST /orders:resolve", "POST /orders:erase", "POST /contents:fetch", "POST /contents:adopt", "POST /events:replay"} {
		if !changing[known] {
			t.Errorf("%s changes something", known)
		}
	}
}

func TestALevelIsNotChangedWithoutALineInTheAudit(t *testing.T) {
	level, book := &telemetry.Level{}, labelled(t)
	if code, now := askLevel(t, level, book, http.MethodPut, "?level=debug&for=10m"); code != http.StatusOK || now.Level != "debug" {
		t.Fatalf("%d %+v", code, now)
	}
	lines, err := book.AuditLines(t.Context(), ledger.Position{}, 10)
	if err != nil || len(lines) != 1 || lines[0].Actor != "anonymous" || lines[0].Action != ledger.ActLogLevel || lines[0].Became != `{"for":"10m0s","level":"debug"}` ||
		lines[0].Was != `{"level":"info","usual":"info"}` || !strings.HasPrefix(lines[0].Origin, "127.0.0.1:") {
		t.Errorf("the audit is %+v, %v", lines, err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	before := level.Level()
	if code, _ := askLevel(t, level, book, http.MethodPut, "?level=error"); code != http.StatusServiceUnavailable || level.Level() != before {
		t.Errorf("without a ledger: %d, and the level is %v", code, level.Level())
	}
}

func TestADeletionIsNotAskedForWithoutALineInTheAudit(t *testing.T) {
	book, deleted := labelled(t, "gen_1"), 0
	served := Orders{Ledger: book, Delete: func(context.Context, ledger.Order) error { deleted++; return nil }}
	nobody, erasure := t.Context(), Erasure{Generation: "gen_1", Delete: true} // which no route lets in
	if done, err := served.eraseStep(nobody, erasure, stepTime); err != nil || deleted != 0 || done.Erased != 0 || len(done.Left) != 1 {
		t.Errorf("by nobody: %+v, %v, %d deleted", done, err, deleted)
	}
	if done, err := served.eraseStep(asAda(t), erasure, stepTime); err != nil || deleted != 1 || done.Erased != 1 {
		t.Errorf("%+v, %v, %d deleted", done, err, deleted)
	}
	lines, err := book.AuditLines(t.Context(), ledger.Position{}, 10)
	found, findErr := book.List(t.Context(), ledger.Filter{AnyState: true}, ledger.Position{}, 10)
	if findErr != nil || len(found) != 1 {
		t.Fatal(found, findErr)
	}
	if err != nil || len(lines) != 2 || lines[0].Subject != "gen_1" || lines[0].Was != `{"owner":"studio","state":"succeeded"}` || lines[1].Became != `{"wanted":{"generation":"gen_1"},"erased":1,"orders":{"studio":["`+found[0].ID+`"]}}` {
		t.Errorf("the audit is %+v, %v", lines, err)
	}
}
