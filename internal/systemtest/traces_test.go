package systemtest

import (
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// callersTrace is the trace ID that the caller sends with its calls.
const callersTrace = "0af7651916cd43dd8448eb211c80319c"

// traced is a server that exports its traces.
type traced struct{ *proctest.Stack }

// startExporting starts a sandbox, and a server that exports telemetry to the given endpoint.
func startExporting(t *testing.T, endpoint string, settings proctest.Settings) traced {
	t.Helper()
	return traced{proctest.NewStack(t, "--balance", "7.00", "--speed", "5").With(settings).With(proctest.Settings{
		"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "EASEL_POLL_MIN_INTERVAL": "200ms",
	}).Serve()}
}

// runJob orders a render, watches it, downloads the result, and returns the generation ID. All these calls are in the
// caller's trace.
func (s traced) runJob(t *testing.T) (id string) {
	t.Helper()
	conn := proctest.Dial(t, s.Server.GRPC)
	client := easelv1.NewGenerationServiceClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(),
		"authorization", "Bearer "+s.Sandbox.Key, "traceparent", "00-"+callersTrace+"-b7ad6b7169203331-01", "baggage", "customer=jane")
	created, err := client.CreateGeneration(ctx, &easelv1.CreateGenerationRequest{
		ModelId: "studio/landscape", IdempotencyKey: "k", InputsJson: `{"prompt":"a lake","size":"64x40"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	id = created.GetGeneration().GetGenerationId()
	watching, err := client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{GenerationId: id})
	for err == nil {
		_, err = watching.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	fetching, err := client.DownloadGeneration(ctx, &easelv1.DownloadGenerationRequest{GenerationId: id})
	for err == nil {
		_, err = fetching.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return id
}

// holdJob checks that the exports contain the spans of a job, and that all exported metrics are in the table of
// metrics. The spans must not contain the API key or baggage, and span names must not contain IDs.
func (c *collector) holdJob(t *testing.T, key, id string) {
	t.Helper()
	const service = "easel.v1.GenerationService/"
	inTrace, polls := map[string]bool{}, 0
	for _, span := range c.exportedSpans() {
		switch {
		case hex.EncodeToString(span.GetTraceId()) == callersTrace:
			inTrace[span.GetName()] = true
		case span.GetName() == "poll":
			polls++
		}
		if text := span.String(); len(span.GetEvents()) > 0 || strings.Contains(text, key) || strings.Contains(text, "jane") || strings.Contains(span.GetName(), id) {
			t.Errorf("the span %s has forbidden content: %s", span.GetName(), text)
		}
	}
	for _, name := range []string{
		service + "CreateGeneration", "POST /generations", service + "WatchGeneration", "push", service + "DownloadGeneration", "GET /generations/{id}/content",
	} {
		if !inTrace[name] {
			t.Errorf("%s is not in the trace %v", name, slices.Sorted(maps.Keys(inTrace)))
		}
	}
	if polls == 0 {
		t.Error("no span of a poll was exported")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.metrics {
		if !slices.ContainsFunc(telemetry.Table, func(m telemetry.Metric) bool { return m.Name == name }) {
			t.Errorf("the metric %s is not in the table of metrics", name)
		}
	}
	if !c.metrics["rpc.server.call.duration"] || !c.metrics["easel.polls"] {
		t.Errorf("the received metrics are %v", c.metrics)
	}
}

// The returned function calls GetAccount over gRPC and returns the duration of the call.
func (s traced) caller(t *testing.T) func() time.Duration {
	t.Helper()
	conn := proctest.Dial(t, s.Server.GRPC)
	client, ctx := easelv1.NewAccountServiceClient(conn), proctest.Bearing(t.Context(), s.Sandbox.Key)
	return func() time.Duration {
		began := time.Now()
		if _, err := client.GetAccount(ctx, &easelv1.GetAccountRequest{}); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
}

// A collector that never responds must not make calls much slower, even on a busy machine.
func TestUnresponsiveCollectorBarelySlowsCalls(t *testing.T) {
	stuck := deadCollector(t)
	settings := map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_BSP_EXPORT_TIMEOUT": "1000", "OTEL_EXPORTER_OTLP_TIMEOUT": "1000"}
	var calls [2]func() time.Duration
	for i, s := range []traced{startExporting(t, "http://"+startCollector(t, 0).addr, settings), startExporting(t, "http://"+stuck.Address, settings)} {
		calls[i] = s.caller(t)
		for range 20 {
			calls[i]()
		}
	}
	// The loop below calls the two servers alternately, so that other load on the machine affects both equally. Its
	// calls also fill the queue of spans.
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
		t.Errorf("a collector that never responds makes calls take %.2f times as long", ratio)
	}
	if !stuck.HasFrozen() {
		t.Error("nothing was sent to the collector")
	}
}
