package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/watch"
)

func FuzzAnEtagIsToldFromEveryOther(f *testing.F) { // U16
	for _, seed := range []string{"", "a", `"`, "a,b", "é", "\x00\r\n", "%22", "*", `W/"a"`} {
		f.Add(seed, seed+"x")
	}
	f.Fuzz(func(t *testing.T, etag, other string) {
		quoted := quoteEtag(etag)
		if strings.ContainsAny(strings.Trim(quoted, `"`), "\", \r\n\x00") {
			t.Errorf("%q became %s, which a header can't carry", etag, quoted)
		}
		if etag != "" && !listsEtag(`"y", `+quoted, quoted, false) {
			t.Errorf("%s is not found in a list", quoted)
		}
		if etag != other && etag != "" && (quoteEtag(other) == quoted || listsEtag(quoteEtag(other), quoted, true)) {
			t.Errorf("%q is not told from %q", etag, other)
		}
		_ = listsEtag(other, quoted, true)
	})
}

// plainCatalog is a catalog in good health, whose renders are done.
func plainCatalog(w http.ResponseWriter, r *http.Request) {
	const record = `{"id":"g1","modelId":"m/n","status":"succeeded","costCents":1,"contentType":"image/png"}`
	switch path := r.URL.Path; {
	case path == "/me":
		_, _ = io.WriteString(w, `{"balanceCents":5}`)
	case path == "/models":
		_, _ = io.WriteString(w, `[{"id":"m/n"},{"id":"o"}]`)
	case path == "/models/detail":
		_, _ = io.WriteString(w, `{"id":"m/n","fields":[]}`)
	case path == "/quote":
		_, _ = io.WriteString(w, `{"priceCents":1}`)
	case path == "/generations" && r.Method == http.MethodGet:
		_, _ = io.WriteString(w, "["+record+"]")
	case strings.HasSuffix(path, "/content"):
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Etag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("bytes of a picture"))
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		_, _ = io.WriteString(w, record)
	}
}

// answered is a transport that asks a handler.
type answered struct{ http.HandlerFunc }

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Result(), nil
}

// restHandler is the whole REST side as it is served, over a catalog in good health.
func restHandler(f *testing.F) http.Handler {
	f.Helper()
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	client, err := catalog.New(catalog.Config{BaseURL: "http://localhost", Transport: answered{plainCatalog}})
	must(err)
	hub, err := watch.New(watch.Config{Upstream: client.Polls(), Rate: 1e6})
	must(err)
	book, err := ledger.Open(context.Background(), ledger.Config{URL: ledger.InMemory, Catalog: "http://localhost"})
	must(err)
	taken := orders.New(orders.Config{Recorder: orders.NewRecorder(book, slog.New(slog.DiscardHandler)), Catalog: client, Hub: hub})
	services, err := service.New(service.Config{Catalog: client, Hub: hub, Orders: taken})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	handlers, ended := make(chan http.Handler, 1), make(chan struct{})
	front, err := server.New(server.Config{
		Listeners: server.Listeners{GRPC: bufconn.Listen(1), HTTP: bufconn.Listen(1), Admin: bufconn.Listen(1)}, Service: services,
		Admin: func(*server.Server) http.Handler { return http.NotFoundHandler() },
		REST: func(_ *server.Server, local *server.Local) (http.Handler, error) {
			handler, err := New(Config{Calls: local, Content: services.Content, OpenAPI: []byte("{}")})
			handlers <- handler
			return handler, err
		},
	})
	must(err)
	go func() { defer close(ended); _ = front.Serve(ctx) }()
	f.Cleanup(func() {
		stop()
		<-ended
		services.Close()
		_ = taken.Close(context.Background())
		hub.Close()
		_ = book.Close()
	})
	return <-handlers
}

// enoughWriter ends a request that would go on for ever, such as a watch of everything, when it
// has said something.
type enoughWriter struct {
	*httptest.ResponseRecorder
	enough func()
}

func (p enoughWriter) Flush() {
	p.ResponseRecorder.Flush()
	if p.Body.Len() > 40 { // more than the first line of an event stream
		p.enough()
	}
}

func FuzzTheWholeRESTSideBlamesItselfForNothing(f *testing.F) { // I2 I3 I4 I5
	for _, seed := range [][2]string{
		{"GET /v1/account", ""},
		{"GET /v1/models?page_size=1&pageToken=bW9kZWxzOm0vbg", ""},
		{"GET /v1/models/m/n", ""},
		{"GET /v1/models/m%2Fn%2f..", ""},
		{"GET /v1/generations?pageSize=2147483648", ""},
		{"GET /v1/generations/g1?maxStaleness=1s", ""},
		{"GET /v1/generations/..%2fme", ""},
		{"GET /v1/generations/g1:wait?timeout=0.1s&until=WATCH_UNTIL_SETTLED", ""},
		{"GET /v1/generations/g1:watch?heartbeatInterval=1s", ""},
		{"GET /v1/generations:watch?generationIds=g1", ""},
		{"GET /v1/generations/g1/content\nRange: bytes=1-3\nIf-None-Match: \"x\"", ""},
		{"GET /v1/generations/g1/content?readOffset=3&readLimit=2", ""},
		{"HEAD /v1/generations/g1/content", ""},
		{"DELETE /v1/generations/g1?force=true&allowMissing=1", ""},
		{"DELETE /v1/generations/g1?force=true&allowMiss=1", ""},
		{"POST /v1/generations\nIdempotency-Key: k", `{"modelId":"m/n","inputs":{"a":[1,null]},"maxCostCents":"5"}`},
		{"POST /v1/generations", `{"modelId":"m/n","inputsJson":"{\"a\":1,\"a\":2}","idempotencyKey":"k"}`},
		{"POST /v1/generations", `{"modelId":"m/n","inputs":` + strings.Repeat(`{"a":`, 2100) + "1" + strings.Repeat("}", 2100) + `,"idempotencyKey":"k"}`},
		{"POST /v1/generations:quote\nContent-Type: text/plain", `{}`},
		{"POST /v1/generations:quote", "{\"modelId\":\"\xff\"}"},
		{"PUT /v1/generations", "[]"},
		{"OPTIONS *", ""},
		{"GET /openapi.json\nRange: bytes=0-0", ""},
		{"GET //v1/../v1/account\nSec-Fetch-Site: cross-site", ""},
		{"GET /v1/generations?unknown=%zz&pageToken=%ff", ""},
		{"GET /v1/account\nAuthorization: Basic eA==", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	handler := restHandler(f)
	f.Fuzz(func(t *testing.T, head, body string) {
		line, headers, _ := strings.Cut(head, "\n")
		raw := line + " HTTP/1.1\r\nHost: easel.test\r\n"
		if !strings.Contains(headers, "Authorization:") {
			raw += "Authorization: Bearer key\r\n"
		}
		if headers != "" {
			raw += strings.ReplaceAll(headers, "\n", "\r\n") + "\r\n"
		}
		raw += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return // the standard library answers that
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		w := enoughWriter{httptest.NewRecorder(), cancel}
		handler.ServeHTTP(w, r.WithContext(ctx))
		checkAnswer(t, r, w.Result(), ctx.Err() != nil)
	})
}

// clientFaults are the codes that a request may be refused with while the catalog is well.
var clientFaults = []int{400, 401, 403, 404, 405, 406, 408, 409, 412, 413, 415, 416, 429, 431, 499}

// checkAnswer fails the test where an answer is damaged, or blames the server for what the
// client sent.
func checkAnswer(t *testing.T, r *http.Request, answer *http.Response, cut bool) {
	t.Helper()
	body, _ := io.ReadAll(answer.Body)
	code := answer.StatusCode
	late := cut && code == http.StatusGatewayTimeout
	if code >= 400 && !late && !slices.Contains(clientFaults, code) {
		t.Errorf("%s %s is answered %d: %s", r.Method, r.RequestURI, code, body)
	}
	if answer.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %s is answered without nosniff", r.Method, r.RequestURI)
	}
	for name, values := range answer.Header {
		if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
			t.Errorf("%s %s is answered with the header %q: %q", r.Method, r.RequestURI, name, values)
		}
	}
	if len(body) == 0 || r.Method == http.MethodHead {
		return
	}
	switch media := answer.Header.Get("Content-Type"); {
	case code >= 400:
		st := servertest.RESTStatus(t, string(body))
		if st.Code() == 0 || service.Reason(st) == easelv1.ErrorReason_ERROR_REASON_UNSPECIFIED || !cut && st.Message() == "" {
			t.Errorf("%s %s is refused as %s", r.Method, r.RequestURI, body)
		}
	case media == "application/json" && code != http.StatusPartialContent:
		if !json.Valid(body) {
			t.Errorf("%s %s is answered %s", r.Method, r.RequestURI, body)
		}
	case media == "application/x-ndjson":
		for line := range bytes.Lines(body) {
			if !json.Valid(line) {
				t.Errorf("%s %s is answered with the line %s", r.Method, r.RequestURI, line)
			}
		}
	}
}
