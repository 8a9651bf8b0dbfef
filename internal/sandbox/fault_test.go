package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// injectFault activates a fault, which must fire before the test ends.
func (sh *account) injectFault(f sandbox.Fault) *sandbox.Injected {
	sh.t.Helper()
	fault := sh.s.Inject(f)
	sh.t.Cleanup(func() {
		if fault.Fired() == 0 {
			sh.t.Errorf("the fault never fired: %+v", f)
		}
	})
	return fault
}

func TestInjectedFaultReplacesHandlerResponse(t *testing.T) {
	sh := open(t, fastConfig())
	sh.injectFault(sandbox.Fault{
		Route: "POST /generations", Count: 1, Status: 503, Body: "<h1>no</h1>",
		Header: map[string]string{"Content-Type": "text/html", "Retry-After": "in a while"},
	})
	r := sh.do("POST", "/generations", haiku).want(t, 503, "<h1>no</h1>")
	if r.header.Get("Retry-After") != "in a while" || r.header.Get("Content-Type") != "text/html" {
		t.Errorf("the headers are %v", r.header)
	}
	if n := len(sh.audit().Generations); n != 0 {
		t.Errorf("%d generations were created, want 0", n)
	}
	sh.create(haiku)
	if n := sh.s.Requests()["POST /generations"]; n != 2 {
		t.Errorf("%d requests were counted, want 2", n)
	}
}

func TestResponseCanBeLostAfterCommit(t *testing.T) {
	for name, f := range map[string]sandbox.Fault{
		"reset":      {Reset: true},
		"bad status": {Status: 502},
		"truncated":  {Body: `{"id`},
		"no id":      {Body: `{"status":"queued"}`},
	} {
		t.Run(name, func(t *testing.T) {
			sh := open(t, fastConfig())
			f.Route, f.AfterCommit, f.Count = "POST /generations", true, 1
			fault := sh.injectFault(f)
			lost, err := sh.trySend("POST", "/generations", haiku, "Idempotency-Key", "k")
			if name == "reset" && err == nil {
				t.Errorf("a response arrived: %s", lost.body)
			}
			id := sh.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 200, "").record(t)["id"]
			a := sh.audit()
			if len(a.Generations) != 1 || a.Generations[0].ID != id || a.ChargesByIdempotencyKey["k"] != 1 || fault.Fired() != 1 {
				t.Errorf("the audit is %+v, want one charge", a)
			}
		})
	}
}

func TestResetBeforeHandlerCreatesNoGeneration(t *testing.T) {
	sh := open(t, fastConfig())
	sh.injectFault(sandbox.Fault{Reset: true, Count: 1})
	if r, err := sh.trySend("POST", "/generations", haiku); err == nil {
		t.Errorf("a response arrived: %d", r.status)
	}
	if n := len(sh.audit().Generations); n != 0 {
		t.Errorf("%d generations were created, want 0", n)
	}
}

func TestDelayedCreateCompletesAfterClientDisconnects(t *testing.T) {
	sh := open(t, fastConfig())
	slow := sh.injectFault(sandbox.Fault{Route: "POST /generations", Count: 1, Delay: sandbox.Delay(100 * time.Millisecond)})
	sh.leaveWhen(slow, 1, http.MethodPost, "/generations", "k")
	proctest.Eventually(t, 20*time.Second, "charge", func() bool { return sh.audit().ChargesByIdempotencyKey["k"] == 1 })
	sh.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 200, "")
}

func TestHangingRequestEndsWhenClientDisconnects(t *testing.T) {
	sh := open(t, fastConfig())
	fault := sh.injectFault(sandbox.Fault{Hang: true, Count: 2})
	sh.leaveWhen(fault, 1, http.MethodGet, "/generations", "")
	sh.leaveWhen(fault, 2, http.MethodPost, "/generations", "")
	sh.do("GET", "/generations", "").want(t, 200, "")
} // the server's Close returns only after all handlers have ended

// leaveWhen sends a request and disconnects once the fault has fired the given number of times.
func (sh *account) leaveWhen(fault *sandbox.Injected, firedCount int, method, path, idempotency string) {
	sh.t.Helper()
	ctx, leave := context.WithCancel(sh.t.Context())
	defer leave()
	ended := make(chan error, 1)
	go func() {
		res, err := sh.c.Do(sh.newRequest(ctx, method, path, haiku, "Idempotency-Key", idempotency))
		if err == nil {
			res.Body.Close()
		}
		ended <- err
	}()
	proctest.Eventually(sh.t, 20*time.Second, "fault", func() bool { return fault.Fired() == firedCount })
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		sh.t.Errorf("%s %s returned the error %v, want context.Canceled", method, path, err)
	}
}

func TestCloseEndsRequestsHeldByFaults(t *testing.T) {
	sh := open(t, fastConfig())
	hang := sh.injectFault(sandbox.Fault{Route: "GET /me", Hang: true})
	slow := sh.injectFault(sandbox.Fault{Route: "GET /models", Delay: sandbox.Delay(time.Hour)})
	ended := make(chan error, 2)
	for _, path := range []string{"/me", "/models"} {
		go func() {
			_, err := sh.trySend("GET", path, "")
			ended <- err
		}()
	}
	proctest.Eventually(t, 20*time.Second, "faults", func() bool { return hang.Fired() == 1 && slow.Fired() == 1 })
	if err := sh.s.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	<-ended
	sh.reopen()
}

// reopen replaces a sandbox that the test has closed, because the cleanup of the test audits the sandbox.
func (sh *account) reopen() {
	s, err := sandbox.Open(fastConfig())
	if err != nil {
		sh.t.Fatal(err)
	}
	sh.s = s
	sh.key = sh.newKey(1)
}

func TestRedirectFaultSetsLocation(t *testing.T) {
	sh := open(t, fastConfig())
	for status, want := range map[int]int{0: 302, 301: 301, 302: 302, 303: 303, 307: 307, 308: 308} {
		sh.injectFault(sandbox.Fault{Count: 1, Redirect: "http://other.example:81/x", Status: status})
		r := sh.do("GET", "/me", "")
		if r.header.Get("Location") != "http://other.example:81/x" || r.status != want {
			t.Errorf("fault with status %d: got status %d and the location %q", status, r.status, r.header.Get("Location"))
		}
	}
}

func TestOversizeFaultReturnsLargeValidJSON(t *testing.T) {
	sh := open(t, fastConfig())
	sh.injectFault(sandbox.Fault{Oversize: 8 << 20})
	r := sh.do("GET", "/generations", "").want(t, 200, "")
	if len(r.body) != 8<<20+2 || !json.Valid(r.body) {
		t.Errorf("got %d bytes, want %d bytes of valid JSON", len(r.body), 8<<20+2)
	}
}

// createContent creates a generation whose result is a file, waits until it has succeeded, and returns the path
// and the bytes of the file.
func (sh *account) createContent() (path string, whole []byte) {
	id := sh.create(small)
	sh.awaitStatus(id, "succeeded")
	path = "/generations/" + id + "/content"
	return path, sh.do("GET", path, "").body
}

func TestResponseBodyCanBeCutAtAnyOffset(t *testing.T) {
	sh := open(t, fastConfig())
	path, whole := sh.createContent()
	for _, at := range []int{0, 1, 1000, len(whole) - 1} {
		sh.injectFault(sandbox.Fault{Route: "GET /generations/{id}/content", Count: 1, Cut: true, CutAfter: int64(at)})
		r, err := sh.trySend("GET", path, "")
		if !errors.Is(err, io.ErrUnexpectedEOF) || string(r.body) != string(whole[:at]) {
			t.Errorf("cut at %d: %d bytes, %v", at, len(r.body), err)
		}
	}
	sh.injectFault(sandbox.Fault{Route: "DELETE /generations/{id}", Count: 1, Cut: true})
	if _, err := sh.trySend("DELETE", strings.TrimSuffix(path, "/content"), ""); err == nil {
		t.Log("the head of the response arrived before the cut") // not a failure: the response to this request has no body, so the client may not notice the cut
	}
	sh.do("GET", path, "").want(t, 404, "")
}

func TestContentLengthFaultCanBeTooLargeOrTooSmall(t *testing.T) {
	sh := open(t, fastConfig())
	path, whole := sh.createContent()
	sh.injectFault(sandbox.Fault{Route: "GET /generations/{id}/content", Count: 1, ContentLengthDelta: 7})
	if r, err := sh.trySend("GET", path, ""); !errors.Is(err, io.ErrUnexpectedEOF) || len(r.body) != len(whole) {
		t.Errorf("Content-Length above the size: read %d of %d bytes, %v", len(r.body), len(whole), err)
	}
	sh.injectFault(sandbox.Fault{Route: "GET /generations/{id}/content", Count: 1, ContentLengthDelta: -7})
	if r, err := sh.trySend("GET", path, ""); err != nil || len(r.body) != len(whole)-7 {
		t.Errorf("Content-Length below the size: read %d of %d bytes, %v", len(r.body), len(whole), err)
	}
}

func TestResponseBodyCanBeSentSlowly(t *testing.T) {
	sh := open(t, fastConfig())
	sh.injectFault(sandbox.Fault{Route: "GET /me", Count: 1, Drip: 2000})
	start := time.Now()
	r := sh.do("GET", "/me", "").want(t, 200, "balanceCents")
	if least := time.Duration(len(r.body)) * time.Second / 2000; time.Since(start) < least {
		t.Errorf("%d bytes took %s, less than %s", len(r.body), time.Since(start), least)
	}
	sh.injectFault(sandbox.Fault{Route: "GET /me", Count: 1, Drip: 1})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	res, err := sh.c.Do(sh.newRequest(ctx, "GET", "/me", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	leave() // the handler must notice that the client has disconnected; otherwise, Close waits for a minute
	if got, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("the complete response arrived: %q", got)
	}
}

func TestFaultCanChangeResponseMembers(t *testing.T) {
	sh := open(t, fastConfig())
	id := sh.create(haiku)
	sh.awaitStatus(id, "succeeded")
	sh.injectFault(sandbox.Fault{Set: map[string]any{"status": "sleeping", "id": nil}, Count: 2})
	one := sh.do("GET", "/generations/"+id, "").record(t)
	if _, has := one["id"]; has || one["status"] != "sleeping" || one["textOutput"] == nil {
		t.Errorf("the changed record is %v, want no id and the status sleeping", one)
	}
	if body := sh.do("GET", "/generations", "").body; !strings.Contains(string(body), `"status":"sleeping"`) {
		t.Errorf("the list lacks the status sleeping: %s", body)
	}
	sh.awaitStatus(id, "succeeded")
}

func TestFaultAffectsOnlyMatchingRequests(t *testing.T) {
	sh := open(t, fastConfig())
	other := "Bearer " + sh.newKey(1)
	sh.injectFault(sandbox.Fault{Name: "mine", Route: "GET /me", Key: sh.key, Skip: 1, Count: 2, Status: 500})
	var got []int
	for range 5 {
		got = append(got, sh.do("GET", "/me", "").status, sh.do("GET", "/me", "", "Authorization", other).status)
	}
	sh.do("GET", "/models", "").want(t, 200, "")
	if diff := cmp.Diff([]int{200, 200, 500, 200, 500, 200, 200, 200, 200, 200}, got); diff != "" {
		t.Error(diff)
	}
	if list := sh.s.Faults(); len(list) != 1 || list[0].Fired != 2 || list[0].Seen != 3 || list[0].Fault.Name != "mine" {
		t.Errorf("the faults are %+v, want one that was seen 3 times and fired twice", list)
	}
}

func TestFaultsFireRandomlyUntilRemoved(t *testing.T) {
	sh := open(t, fastConfig())
	some := sh.injectFault(sandbox.Fault{Probability: 0.5, Status: 500})
	for range 100 {
		sh.do("GET", "/models", "")
	}
	if n := some.Fired(); n < 25 || n > 75 {
		t.Errorf("the fault fired %d times in 100 requests, want 25 to 75", n)
	}
	some.Remove()
	sh.do("GET", "/models", "").want(t, 200, "")
	always := sh.injectFault(sandbox.Fault{Status: 500})
	sh.do("GET", "/models", "").want(t, 500, "")
	sh.s.ClearFaults()
	sh.do("GET", "/models", "").want(t, 200, "")
	if always.Fired() != 1 {
		t.Errorf("the fault fired %d times, want 1", always.Fired())
	}
}

func TestInvalidFaultIsRejected(t *testing.T) {
	for field, f := range map[string]sandbox.Fault{
		"route":       {Route: "GET /nothing"},
		"skip":        {Skip: -1},
		"probability": {Probability: 2},
		"status":      {Status: 42},
		"afterCommit": {AfterCommit: true},
		"set":         {Reset: true, Cut: true},
		"no effect":   {Route: "GET /me", Count: 1, CutAfter: 5},
	} {
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestKeysAndFaultsAreManagedOverHTTP(t *testing.T) {
	sh := open(t, fastConfig())
	admin := httptest.NewServer(sh.s.AdminHandler())
	defer admin.Close()
	send := func(method, path, body string) reply {
		t.Helper()
		answer, text := proctest.Request(t, method, admin.URL+path, body)
		return reply{answer.StatusCode, answer.Header, text}
	}
	key := send("POST", "/_sandbox/keys", `{"name":"ada","balanceCents":5,"dailyCapCents":9}`).want(t, 201, "").record(t)["key"].(string)
	if !strings.HasPrefix(key, sandbox.KeyPrefix) {
		t.Errorf("the key %s does not have the prefix of sandbox keys", key)
	}
	sh.do("GET", "/me", "", "Authorization", "Bearer "+key).want(t, 200, `"name":"ada"`)
	send("POST", "/_sandbox/keys/"+key+"/topup", `{"cents":7,"note":"more"}`).want(t, 200, `"balanceCents": 12`)
	audit := send("GET", "/_sandbox/audit?key="+key, "").want(t, 200, `"topUpCents": 12`).record(t)
	if faults := audit["faults"].([]any); len(faults) != 0 {
		t.Errorf("the audit reports the faults %v, want none", faults)
	}

	send("POST", "/_sandbox/faults", `{"route":"GET /me","status":418,"delay":"1ms","count":1}`).want(t, 201, `"delay": "1ms"`)
	sh.do("GET", "/me", "").want(t, 418, "")
	send("GET", "/_sandbox/faults", "").want(t, 200, `"fired": 1`)
	send("DELETE", "/_sandbox/faults", "").want(t, 200, `"faults": []`)
	send("GET", "/_sandbox/requests", "").want(t, 200, `"GET /me": 2`)
	send("DELETE", "/_sandbox/keys/"+key, "").want(t, 200, "")
	sh.do("GET", "/me", "", "Authorization", "Bearer "+key).want(t, 401, "")

	for _, c := range []struct {
		path, body, field string
		status            int
	}{
		{"/_sandbox/faults", `{"route":"GET /x"}`, `"field":"route"`, 400},
		{"/_sandbox/faults", `{"rout":"GET /me"}`, `unknown field \"rout\"`, 400},
		{"/_sandbox/faults", `{}`, "it has no effect", 400},
		{"/_sandbox/keys", `{"balance":1}`, `unknown field \"balance\"`, 400},
		{"/_sandbox/faults", `{"status":"500"}`, "Fault.status", 400},
		{"/_sandbox/faults", `{"delay":"soon"}`, `invalid duration`, 400},
		{"/_sandbox/faults", `{`, "INVALID_JSON", 400},
		{"/_sandbox/keys", `{"balanceCents":-1}`, `"field":"balanceCents"`, 400},
		{"/_sandbox/keys", `{"key":"short"}`, `"field":"key"`, 400},
		{"/_sandbox/keys", `{"key":"` + sh.key + `"}`, "KEY_EXISTS", 409},
		{"/_sandbox/keys/nobody/topup", `{"cents":1}`, "UNKNOWN_KEY", 404},
		{"/_sandbox/keys/nobody/topup", `{"cents":0}`, `"field":"cents"`, 400},
	} {
		r := send("POST", c.path, c.body)
		if r.status != c.status || !strings.Contains(string(r.body), c.field) {
			t.Errorf("POST %s %s: %d %s", c.path, c.body, r.status, r.body)
		}
	}
	send("GET", "/_sandbox/audit?key=nobody", "").want(t, 404, "UNKNOWN_KEY")
	sh.do("GET", "/../../../../_sandbox/faults", "").want(t, 307, "") // redirected, because the path is outside the catalog
}

func TestAdminIndexListsRoutesAndFaultFields(t *testing.T) {
	sh := open(t, fastConfig())
	admin := sh.s.AdminHandler()
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w
	}
	var index struct {
		Routes []struct {
			Method, Path, Does string
			Body               json.RawMessage
		}
		ExampleFault json.RawMessage
		FaultFields  []struct{ Name, Type, Means string }
		FaultRoutes  []string
	}
	if err := json.Unmarshal(ask("GET", "/_sandbox/", "").Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	for _, route := range index.Routes {
		path := strings.ReplaceAll(route.Path, "{key}", sh.key)
		if w := ask(route.Method, path, string(route.Body)); w.Code > 299 || route.Does == "" {
			t.Errorf("%s %s %s: %d %s", route.Method, path, route.Body, w.Code, w.Body)
		}
	}
	if w := ask("POST", "/_sandbox/faults", string(index.ExampleFault)); len(index.Routes) < 9 || w.Code != http.StatusCreated {
		t.Errorf("the example %s with %d routes: status %d, %s", index.ExampleFault, len(index.Routes), w.Code, w.Body)
	}
	var explained, known []string
	for _, field := range index.FaultFields {
		explained = append(explained, field.Name)
		if field.Type == "" || field.Means == "" {
			t.Errorf("the field %s has no type or description", field.Name)
		}
	}
	kind := reflect.TypeFor[sandbox.Fault]()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		known = append(known, name)
	}
	if diff := cmp.Diff(known, explained); diff != "" {
		t.Error(diff)
	}
	for _, route := range index.FaultRoutes {
		if err := (sandbox.Fault{Route: route, Reset: true}).Validate(); err != nil {
			t.Error(err)
		}
	}
}
