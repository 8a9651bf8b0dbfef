package sandbox_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		runChild(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// account is a sandbox with an API key.
type account struct {
	t   *testing.T
	s   *sandbox.Sandbox
	url string
	key string
	c   *http.Client
}

// newAccount opens a sandbox with an API key whose balance is 1,000 cents. The test calls the sandbox without a
// network, so that it can use virtual time. When the test ends, the accounts must pass the audit.
func newAccount(t *testing.T, cfg sandbox.Config) *account {
	t.Helper()
	cfg.Seed = cmp.Or(cfg.Seed, 7)
	s, err := sandbox.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sh := &account{t: t, s: s, url: "http://catalog"}
	sh.c = &http.Client{Transport: direct{sh}, CheckRedirect: noRedirect}
	sh.key = sh.newKey(1000)
	t.Cleanup(func() {
		sh.audit()
		if err := sh.s.Close(); err != nil { // closes the sandbox before the HTTP server, which would otherwise wait for the delays of injected faults
			t.Error(err)
		}
	})
	return sh
}

// direct is a transport that calls the handler of a sandbox.
type direct struct{ *account }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.s.ServeHTTP(w, r)
	return w.Result(), nil
}

// open starts a sandbox behind a real HTTP server.
func open(t *testing.T, cfg sandbox.Config) *account {
	t.Helper()
	server, transport := httptest.NewUnstartedServer(nil), &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	sh := newAccount(t, cfg)
	server.Config.Handler = sh.s
	server.Start()
	sh.url, sh.c.Transport = server.URL, transport
	return sh
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// fastConfig returns a configuration in which renders take milliseconds.
func fastConfig() sandbox.Config {
	return sandbox.Config{Speed: 2000, RefundDelay: 20 * time.Second}
}

func (sh *account) newKey(balance int64) string {
	sh.t.Helper()
	key, err := sh.s.CreateKey(sh.t.Context(), sandbox.KeyConfig{BalanceCents: balance})
	if err != nil {
		sh.t.Fatal(err)
	}
	return key
}

// audit returns the audit of the account's API key.
func (sh *account) audit() sandbox.Audit {
	sh.t.Helper()
	a, err := sh.s.Audit(sh.t.Context(), sh.key)
	if err != nil {
		sh.t.Fatal(err)
	}
	if err := a.Check(); err != nil {
		sh.t.Errorf("the audit failed: %v", err)
	}
	return a
}

// reply is a response with its complete body.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// newRequest returns a request with the account's API key. head contains alternating names and values of headers.
func (sh *account) newRequest(ctx context.Context, method, path, body string, head ...string) *http.Request {
	sh.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, sh.url+sandbox.BasePath+path, strings.NewReader(body))
	if err != nil {
		sh.t.Fatal(err)
	}
	req.GetBody = nil // without GetBody, the transport does not retry the request
	req.Header.Set("Authorization", "Bearer "+sh.key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	return req
}

// trySend sends a request and reads the complete response.
func (sh *account) trySend(method, path, body string, head ...string) (reply, error) {
	res, err := sh.c.Do(sh.newRequest(context.Background(), method, path, body, head...))
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, text}, err
}

// do is like [account.trySend], but the test fails if there is no response.
func (sh *account) do(method, path, body string, head ...string) reply {
	sh.t.Helper()
	r, err := sh.trySend(method, path, body, head...)
	if err != nil {
		sh.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// want fails the test if the response has another status, or if its body does not contain code. It returns r.
func (r reply) want(t *testing.T, status int, code string) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status is %d, want %d: %.500s", r.status, status, r.body)
	}
	if code != "" && !bytes.Contains(r.body, []byte(code)) {
		t.Fatalf("body %.500s does not contain %s", r.body, code)
	}
	return r
}

// record decodes the body, which must be a JSON object.
func (r reply) record(t *testing.T) map[string]any {
	t.Helper()
	var out map[string]any
	dec := json.NewDecoder(bytes.NewReader(r.body))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		t.Fatalf("body %.500s: %v", r.body, err)
	}
	return out
}

// create places an order, which must be accepted, and returns the generation ID.
func (sh *account) create(body string, head ...string) (id string) {
	sh.t.Helper()
	return sh.do("POST", "/generations", body, head...).want(sh.t, http.StatusCreated, "").record(sh.t)["id"].(string)
}

// status returns a generation's status.
func (sh *account) status(id string) string {
	sh.t.Helper()
	return sh.do("GET", "/generations/"+id, "").want(sh.t, http.StatusOK, "").record(sh.t)["status"].(string)
}

// awaitStatus polls a generation until it has one of the wanted statuses, and returns the generation's record.
func (sh *account) awaitStatus(id string, wanted ...string) map[string]any {
	sh.t.Helper()
	var last map[string]any
	proctest.Eventually(sh.t, 20*time.Second, "status of "+id, func() bool {
		last = sh.do("GET", "/generations/"+id, "").want(sh.t, http.StatusOK, "").record(sh.t)
		for _, status := range wanted {
			if last["status"] == status {
				return true
			}
		}
		return false
	})
	return last
}

const (
	haiku  = `{"modelId":"studio/haiku","inputs":{"prompt":"the sea"}}`
	doomed = `{"modelId":"studio/haiku","inputs":{"prompt":"[fail]"}}`
	small  = `{"modelId":"studio/landscape","inputs":{"prompt":"a lake","size":"64x40"}}`
)
