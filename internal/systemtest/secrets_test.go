package systemtest

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"google.golang.org/grpc"
)

// canary is an API key without a recognizable format. Code that redacts keys by their format would miss it.
const canary = "Qx7-canary/Zt9+w=.4mNb"

// spellings returns the forms in which a key can occur in a text.
func spellings(key string) map[string]string {
	forms := map[string]string{
		"unchanged": key, "query-escaped": url.QueryEscape(key), "path-escaped": url.PathEscape(key), "quoted": strings.Trim(strconv.Quote(key), `"`),
		"middle part": key[3:18],
	}
	for shift := range 3 {
		for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("?", shift) + key))
			forms[fmt.Sprint(name, " at offset ", shift)] = text[2*shift : len(text)-2]
		}
	}
	return forms
}

// findLeaks returns the forms of a key that occur in a text, each with the text around it.
func findLeaks(key, text string) (found []string) {
	lower := strings.ToLower(text)
	for name, form := range spellings(key) {
		if at := strings.Index(lower, strings.ToLower(form)); at >= 0 {
			found = append(found, fmt.Sprintf("%s: …%q…", name, text[max(0, at-60):min(len(text), at+len(form)+20)]))
		}
	}
	slices.Sort(found)
	return found
}

// parrot is a catalog that includes the API key of a request in every part of its response.
type parrot struct {
	mu    sync.Mutex
	mode  string // state of the returned generations, "key" for the API key as the state, or an error such as "503 text/html"
	heard map[string]int
}

func (p *parrot) become(mode string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
}

func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	mode := p.mode
	p.heard[mode]++
	p.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("X-Request-Key", key)
	w.Header().Set("Etag", strconv.Quote(key))
	w.Header().Set("Retry-After", key)
	if code, media, refused := strings.Cut(mode, " "); refused {
		status, _ := strconv.Atoi(code)
		w.Header().Set("Content-Type", media)
		w.Header().Set("Location", "https://elsewhere.invalid/?key="+url.QueryEscape(key))
		w.WriteHeader(status)
		fmt.Fprint(w, errorBody(media, key))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	p.answer(w, r, mode, key)
}

// errorBody returns an error body of the given media type that contains the API key.
func errorBody(media, key string) string {
	encoded := base64.StdEncoding.EncodeToString([]byte("Bearer " + key))
	switch media {
	case "application/json":
		return fmt.Sprintf(`{"error":{"code":%[1]q,"message":"the key %[1]s was %[2]s","details":{"fields":{%[1]q:["no %[1]s"],"prompt":["key=%[3]s"]}}}}`, key, encoded, url.QueryEscape(key))
	case "text/html":
		return "<html><body>" + key + "</body></html>"
	}
	return key + ": the request of " + key + " with " + encoded + " was refused"
}

func (p *parrot) answer(w http.ResponseWriter, r *http.Request, state, key string) {
	extra := fmt.Sprintf(`"note":%[1]q,"apiKey":%[1]q,%[1]q:1,"deep":[{"a":["use %[1]s"]},{%[1]q:"x"}],"encoded":%[2]q`, key, base64.StdEncoding.EncodeToString([]byte(key)))
	id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if order := r.Header.Get("Idempotency-Key"); order != "" {
		id = order // the idempotency key becomes the ID, so each order creates its own generation
	}
	record := fmt.Sprintf(`{"id":%[4]q,"modelId":%[1]q,"status":%[2]q,"costCents":1,"inputs":{"prompt":%[1]q},"textOutput":%[1]q,"failureMessage":"for %[1]s","contentType":%[1]q,"contentUrl":"https://x.invalid/%[1]s",%[3]s}`,
		key, map[bool]string{true: key, false: state}[state == "key"], extra, id)
	switch path := strings.TrimPrefix(r.URL.Path, "/catalog"); {
	case path == "/me":
		fmt.Fprintf(w, `{"balanceCents":5,"currency":"EUR","name":%q,%s}`, key, extra)
	case path == "/models":
		fmt.Fprintf(w, `[{"id":"studio/haiku","name":%[1]q,"description":%[1]q,%[2]s},{"id":%[1]q}]`, key, extra)
	case path == "/models/detail":
		fmt.Fprintf(w, `{"id":"studio/haiku","name":%[1]q,"description":%[1]q,"fields":[{"name":"prompt","label":%[1]q,"default":%[1]q,"enum":[%[1]q],%[2]s},{"name":%[1]q}],%[2]s}`, key, extra)
	case path == "/quote":
		fmt.Fprintf(w, `{"priceCents":1,"currency":"EUR",%s}`, extra)
	case path == "/generations" && r.Method == http.MethodGet:
		fmt.Fprint(w, "["+record+`,{"id":`+strconv.Quote(key)+`,"status":"succeeded"}]`)
	case strings.HasSuffix(path, "/content"):
		w.Header().Set("Content-Type", "text/plain; name="+strconv.Quote(key))
		w.Header().Set("Content-Disposition", "attachment; filename="+strconv.Quote(key))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("bytes of a result"))
	default:
		fmt.Fprint(w, record)
	}
}

// sink is a telemetry collector that records all exports.
type sink struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.text, "%s %v %s\n", r.URL, r.Header, body)
}

// searchCanary reports a test error if the text contains the API key canary in any form. In the failure message, the
// string source describes where the text was found.
func searchCanary(t *testing.T, source, text string) {
	t.Helper()
	for _, leak := range findLeaks(canary, text) {
		t.Errorf("%s: the text contains the key: %s", source, leak)
	}
}

func TestAPIKeyAppearsInNoOutputOfProcess(t *testing.T) {
	for mode, env := range map[string]map[string]string{
		"forwarded": {},
		"shared":    {"EASEL_UPSTREAM_KEY_FILE": proctest.File(t, canary+"\n")},
	} {
		t.Run(mode, func(t *testing.T) {
			bird, collector := &parrot{heard: map[string]int{}}, &sink{}
			catalog, telemetry := httptest.NewServer(bird), httptest.NewServer(collector)
			defer catalog.Close()
			defer telemetry.Close()
			maps.Copy(env, map[string]string{
				"EASEL_UPSTREAM_URL": catalog.URL + "/catalog", "EASEL_LOG_LEVEL": "debug", "EASEL_POLL_RATE": "1000",
				"OTEL_EXPORTER_OTLP_ENDPOINT": telemetry.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
				"OTEL_METRIC_EXPORT_INTERVAL": "200",
			})
			served := proctest.Serve(t, env)
			token := map[bool]string{true: canary}[mode == "forwarded"]
			callEverything(t, bird, served, token)
			searchProcess(t, served)
			if code := served.Stop(); code != exitOK {
				t.Errorf("the server exited with %d", code)
			}
			text := served.Stderr.String()
			if !strings.Contains(text, `"msg":"call"`) || collector.text.Len() < 10_000 {
				t.Errorf("only %d bytes of logs and %d of telemetry, which is too little for this test", len(text), collector.text.Len())
			}
			searchCanary(t, "the logs", text)
			searchCanary(t, "spans and metrics", collector.text.String())
		})
	}
}

// callEverything sends every call over gRPC and over REST in each mode of the simulated catalog, whose responses
// contain the API key. It searches the server's responses for the key.
func callEverything(t *testing.T, bird *parrot, served *proctest.Process, token string) {
	t.Helper()
	conn := proctest.Dial(t, served.GRPC)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	base := "http://" + served.HTTP
	modes := []string{"queued", "succeeded", "failed", "key"}
	for _, code := range []int{301, 400, 401, 402, 403, 404, 409, 413, 416, 418, 422, 429, 500, 503} {
		modes = append(modes, fmt.Sprint(code, " application/json"))
	}
	for _, code := range []int{400, 404, 429, 503} {
		modes = append(modes, fmt.Sprint(code, " text/plain"), fmt.Sprint(code, " text/html"))
	}
	for n, mode := range modes {
		bird.become("queued")
		waitUntilServed(bearingContext(t, token, time.Minute), t, conn)
		bird.become(mode)
		limit := time.Second / 4
		if mode == "succeeded" {
			limit = 10 * time.Second
		}
		var calls sync.WaitGroup
		for m, one := range everyRPC(t) {
			key, id := fmt.Sprint("k", n), fmt.Sprint("g", n, "-", m) // a new key and a new ID for each call, so that the server has no state for them
			calls.Go(func() {
				seen, messages, err := one.overGRPC(bearingContext(t, token, limit), conn, one.request(id, key))
				isFeed := strings.HasSuffix(one.name, "/WatchEvents") // an event feed does not end on its own; with a forwarded API key, there is no feed
				if mode == "succeeded" && !isFeed && (messages == 0 || err != nil) {
					t.Errorf("%s, %s: no response to search: %v", mode, one.name, err)
				}
				searchCanary(t, "gRPC, "+mode+", "+one.name, seen)
			})
			calls.Go(func() {
				seen, _, _ := one.overREST(bearingContext(t, "", min(limit, time.Second)), client, base, id, key+"r", token)
				searchCanary(t, "REST, "+mode+", "+one.name, seen)
			})
		}
		calls.Wait()
	}
	bird.mu.Lock()
	defer bird.mu.Unlock()
	requests := 0
	for _, mode := range modes {
		if requests += bird.heard[mode]; bird.heard[mode] == 0 {
			t.Errorf("no request reached the catalog in the mode %s", mode)
		}
	}
	t.Logf("%d requests reached the catalog, which repeats the key in %d ways", requests, len(bird.heard))
}

// waitUntilServed waits until a call reaches the catalog again. After a 429, a 503 or a rejected API key, calls fail
// for a while.
func waitUntilServed(ctx context.Context, t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	for {
		_, err := easelv1.NewAccountServiceClient(conn).GetAccount(ctx, &easelv1.GetAccountRequest{})
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("calls still fail although the catalog responds: %v", err)
		}
	}
}

// searchProcess searches for the API key canary in a process's files in /proc and on its admin pages.
func searchProcess(t *testing.T, served *proctest.Process) {
	t.Helper()
	for _, file := range []string{"environ", "cmdline", "status"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", served.Pid(), file))
		if err != nil || len(text) == 0 {
			t.Skipf("this system does not have /proc: %v", err)
		}
		searchCanary(t, "/proc/…/"+file, string(text))
	}
	for _, page := range []string{
		"/", "/status.json", "/metrics", "/healthz", "/readyz", "/debug/pprof/", "/debug/pprof/cmdline",
		"/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs", "/debug/pprof/heap", "/debug/pprof/trace?seconds=0.1",
	} {
		answer, body := proctest.Request(t, http.MethodGet, "http://"+served.Admin+page, "")
		if answer.StatusCode != http.StatusOK || len(body) == 0 {
			t.Errorf("%s: %s", page, answer.Status)
		}
		searchCanary(t, page, string(body))
	}
}
