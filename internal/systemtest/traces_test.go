package systemtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// Spans of a traced caller: one trace with a span for each of its three steps.
const (
	callersTrace   = "0af7651916cd43dd8448eb211c80319c"
	callersOrder   = "b7ad6b7169203331"
	callersWatch   = "b7ad6b7169203332"
	callersFetch   = "b7ad6b7169203333"
	callersBaggage = "customer=jane"
)

// traced is a server that exports its traces to a collector of the test.
type traced struct {
	*collector
	served *proctest.Process
	key    string
}

func startTraced(t *testing.T, settings map[string]string) *traced {
	t.Helper()
	collector := startCollector(t)
	s := startExporting(t, "http://"+collector.addr, settings)
	s.collector = collector
	return s
}

// startExporting starts a server that exports to an endpoint.
func startExporting(t *testing.T, endpoint string, settings map[string]string) *traced {
	t.Helper()
	box := start(t, nil, printsKey,
		"sandbox", "--addr", "127.0.0.1:0", "--balance", "7.00", "--speed", "5", "--seed", "1")
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"EASEL_UPSTREAM_URL": proctest.Find(t, `(http://\S+/catalog)`, box.Stdout.String()), "EASEL_POLL_MIN_INTERVAL": "200ms",
	}
	maps.Copy(env, settings)
	served := serve(t, env)
	return &traced{served: served, key: proctest.Find(t, `(sandbox_live_\w+)`, box.Stdout.String())}
}

// job is one render from its order to its bytes, called below the caller's three spans.
type job struct {
	id       string
	messages int64
	bytes    int64
}

func (s *traced) overGRPC(t *testing.T) (j job) {
	t.Helper()
	conn, err := grpc.NewClient(address(t, s.served, "grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := easelv1.NewGenerationServiceClient(conn)
	under := func(span string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(),
			"authorization", "Bearer "+s.key, "traceparent", "00-"+callersTrace+"-"+span+"-01", "baggage", callersBaggage)
	}
	created, err := client.CreateGeneration(under(callersOrder), &easelv1.CreateGenerationRequest{
		ModelId: "studio/landscape", IdempotencyKey: "k", InputsJson: `{"prompt":"a lake","size":"64x40"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	j.id = created.GetGeneration().GetGenerationId()
	watching, err := client.WatchGeneration(under(callersWatch), &easelv1.WatchGenerationRequest{GenerationId: j.id})
	for err == nil {
		if _, err = watching.Recv(); err == nil {
			j.messages++
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	fetching, err := client.DownloadGeneration(under(callersFetch), &easelv1.DownloadGenerationRequest{GenerationId: j.id})
	for err == nil {
		var m *easelv1.DownloadGenerationResponse
		m, err = fetching.Recv()
		j.bytes += int64(len(m.GetChunk().GetData()))
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return j
}

func (s *traced) overREST(t *testing.T) (j job) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(span, method, path, body string) []byte {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address(t, s.served, "http")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Authorization": {"Bearer " + s.key}, "Content-Type": {"application/json"}, "Accept": {"application/x-ndjson", "*/*"},
			"Traceparent": {"00-" + callersTrace + "-" + span + "-01"}, "Baggage": {callersBaggage},
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status, string(text), err)
		}
		if back := answer.Header.Get("Traceparent"); !strings.Contains(back, callersTrace) {
			t.Errorf("the answer tells the trace %q", back)
		}
		return text
	}
	var created struct{ Generation struct{ GenerationID string } }
	if err := json.Unmarshal(ask(callersOrder, http.MethodPost, "/v1/generations",
		`{"modelId":"studio/landscape","idempotencyKey":"k","inputs":{"prompt":"a lake","size":"64x40"}}`), &created); err != nil {
		t.Fatal(err)
	}
	j.id = created.Generation.GenerationID
	j.messages = int64(bytes.Count(ask(callersWatch, http.MethodGet, "/v1/generations/"+j.id+":watch", ""), []byte("\n")))
	j.bytes = int64(len(ask(callersFetch, http.MethodGet, "/v1/generations/"+j.id+"/content", "")))
	return j
}

// id decodes a hexadecimal ID.
func id(t *testing.T, text string) []byte {
	t.Helper()
	id, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// forms contains the ways to call.
var forms = map[string]func(*traced, *testing.T) job{"gRPC": (*traced).overGRPC, "REST": (*traced).overREST}

func TestTheTraceOfAJobLeadsFromTheCallersWaitToTheAnswerUpstream(t *testing.T) {
	t.Parallel()
	for form, run := range forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := startTraced(t, nil)
			j := run(s, t)
			if s.served.Stop() != exitOK {
				t.Fatal(s.served.Stderr)
			}
			holdJob(t, s, form, j)
		})
	}
}

// holdJob checks the exported trace of a job, from the caller's spans to the catalog's responses.
func holdJob(t *testing.T, s *traced, form string, j job) {
	t.Helper()
	const service = "easel.v1.GenerationService/"
	all := s.trace(t)
	// call returns the span of a call below the caller's span, or below the span of its REST request.
	call := func(callers, method, route string) *otlp.Span {
		parent := id(t, callers)
		if form == "REST" {
			rest := all.only(parent, route)
			all.attributes(rest, "http.route", strings.SplitN(route, " ", 2)[1], "http.request.method", strings.SplitN(route, " ", 2)[0])
			parent = rest.GetSpanId()
		}
		return all.only(parent, service+method)
	}
	order := call(callersOrder, "CreateGeneration", "POST /v1/generations")
	all.attributes(order, "easel.generation.id", j.id, "easel.model.id", "studio/landscape", "easel.generation.state", "queued",
		"easel.cost_cents", "*", "easel.order.id", "*", "rpc.response.status_code", "OK", "rpc.method", service+"CreateGeneration", "rpc.system.name", "grpc")
	post := all.only(order.GetSpanId(), "POST /generations")
	all.attributes(post, "http.response.status_code", "*", "url.template", "/generations")

	watch := call(callersWatch, "WatchGeneration", "GET /v1/generations/{generation_id}:watch")
	all.attributes(watch, "easel.generation.id", j.id, "rpc.response.status_code", "OK", "easel.stream.reason", "done", "easel.stream.messages", "*")
	pushes := all.below(watch.GetSpanId(), "push")
	if len(pushes) < 2 || int64(len(pushes)) > j.messages {
		t.Errorf("%d pushes for %d messages", len(pushes), j.messages)
	}
	holdPushes(t, all, j, order, watch, pushes)

	fetch := call(callersFetch, "DownloadGeneration", "GET /v1/generations/{generation_id}/content")
	all.attributes(fetch, "easel.content.bytes", j.bytes, "easel.stream.reason", "done")
	content := all.only(fetch.GetSpanId(), "GET /generations/{id}/content")
	all.attributes(content, "http.response.status_code", "*")

	holdClean(t, s, j)
	if t.Failed() {
		t.Log("\n" + all.String())
	}
}

// holdPushes checks that each push is linked to the span that found the change, and the last push to the response.
func holdPushes(t *testing.T, all trace, j job, order, watch *otlp.Span, pushes []*otlp.Span) {
	t.Helper()
	for _, push := range pushes {
		if n := len(all.linked(push, "found_by")); n != 1 {
			t.Errorf("a push is linked to %d spans", n)
		}
	}
	last := pushes[len(pushes)-1]
	all.attributes(last, "easel.generation.state", "succeeded", "easel.generation.id", j.id)
	poll := all.linked(last, "found_by")[0]
	if poll.GetName() != "poll" || len(poll.GetParentSpanId()) != 0 || string(poll.GetTraceId()) == string(watch.GetTraceId()) {
		t.Errorf("the end was found by %s, below %x", poll.GetName(), poll.GetParentSpanId())
	}
	all.attributes(poll, "easel.generation.id", j.id, "easel.generation.state", "succeeded", "easel.watches", int64(1), "easel.changes", int64(1))
	for as, want := range map[string]*otlp.Span{"order": order, "watch": watch} {
		if got := all.linked(poll, as); len(got) != 1 || got[0] != want {
			t.Errorf("the poll is linked to %v as %s", got, as)
		}
	}
	get := all.only(poll.GetSpanId(), "GET /generations/{id}")
	all.attributes(get, "http.response.status_code", int64(200), "http.request.method", "GET")
	for _, s := range all.spans {
		if s.GetName() == "poll" && len(s.GetParentSpanId()) != 0 {
			t.Error("a poll has a parent")
		}
	}
}

// holdClean checks that exports contain no API key and no baggage, span names no ID, and metrics only those of the
// table.
func holdClean(t *testing.T, s *traced, j job) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.spans {
		if len(span.GetEvents()) > 0 {
			t.Errorf("%s has the events %v", span.GetName(), span.GetEvents())
		}
		if text := span.String(); strings.Contains(text, s.key) || strings.Contains(text, "jane") {
			t.Errorf("%s holds what it must not: %s", span.GetName(), text)
		}
		if strings.Contains(span.GetName(), j.id) {
			t.Errorf("the span name %s contains an ID", span.GetName())
		}
	}
	known := map[string]bool{}
	for _, row := range telemetry.Table {
		known[row.Name] = true
	}
	for name := range s.metrics {
		if !known[name] {
			t.Errorf("the metric %s is not in the table", name)
		}
	}
	if !s.metrics["rpc.server.call.duration"] || !s.metrics["easel.polls"] {
		t.Errorf("the metrics %v came", s.metrics)
	}
}

// caller returns a function that sends a call and returns its duration.
func (s *traced) caller(t *testing.T) func() time.Duration {
	t.Helper()
	conn, err := grpc.NewClient(address(t, s.served, "grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client, ctx := easelv1.NewAccountServiceClient(conn), metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+s.key)
	return func() time.Duration {
		began := time.Now()
		if _, err := client.GetAccount(ctx, &easelv1.GetAccountRequest{}); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
}

// The delay must be limited even on a busy machine.
func TestACollectorThatNeverAnswersDelaysNoCall(t *testing.T) { // N5
	stuck, connected := deadCollector(t)
	settings := map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_BSP_EXPORT_TIMEOUT": "1000", "OTEL_EXPORTER_OTLP_TIMEOUT": "1000"}
	var calls [2]func() time.Duration
	for i, s := range []*traced{startTraced(t, settings), startExporting(t, stuck, settings)} {
		calls[i] = s.caller(t)
		for range 20 {
			calls[i]()
		}
	}
	// More than the span queue holds. Both servers are measured in alternating slices, so that other load affects both.
	var ratios []float64
	for n := range 40 {
		var took [2][]time.Duration
		for m := range 2 * 60 {
			i := (n + m) % 2
			took[i] = append(took[i], calls[i]())
		}
		slices.Sort(took[0])
		slices.Sort(took[1])
		ratios = append(ratios, took[1][54].Seconds()/took[0][54].Seconds())
	}
	slices.Sort(ratios)
	ratio := ratios[len(ratios)/2]
	t.Logf("one call of ten takes %.2f of the time with a collector that responds", ratio)
	if ratio > 1.5 {
		t.Errorf("a collector that never answers makes calls %.2f times as slow", ratio)
	}
	if len(connected) == 0 {
		t.Error("nothing was sent to the collector")
	}
}
