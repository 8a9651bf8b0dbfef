//go:build unix

package systemtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// shippedCollector is the path of the Collector's configuration in deploy/.
const shippedCollector = "deploy/otel/collector.yaml"

// forThisMachine adapts the shipped configuration to a test: it uses free ports, exports to the test, and sends
// a batch after 50 ms. Unlike in deploy/, metrics and traces share an exporter.
const forThisMachine = `
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}, http: {endpoint: "127.0.0.1:0"}}}}
processors: {batch: {timeout: 50ms}}
exporters: {otlp_grpc: {endpoint: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [otlp], processors: [memory_limiter, batch], exporters: [otlp_grpc]}}
`

// startRealCollector starts the Collector with the shipped configuration, adapted so that it exports to sink. It
// returns the process and the address at which the Collector receives telemetry.
func startRealCollector(t *testing.T, program string, sink *collector) (*proctest.Process, string) {
	t.Helper()
	r := proctest.Start(t, os.Environ(), program, "--config="+shippedCollector, "--config="+proctest.File(t, fmt.Sprintf(forThisMachine, sink.addr)))
	r.Ready(t, func(_, stderr string) bool { return strings.Contains(stderr, "Everything is ready") })
	return r, proctest.Find(t, `Starting GRPC server.*"endpoint": "([^"]+)"`, r.Stderr.String())
}

func TestOpenTelemetryCollectorAcceptsShippedConfiguration(t *testing.T) {
	proctest.Run(t, exec.CommandContext(t.Context(), tool(t, "otelcol"), "validate", "--config="+filepath.Join(proctest.Root, shippedCollector)))
}

func TestOpenTelemetryCollectorForwardsTraceAndMetrics(t *testing.T) {
	t.Parallel()
	program := tool(t, "otelcol")
	sink := startCollector(t, 0)
	between, endpoint := startRealCollector(t, program, sink)
	s := startExporting(t, "http://"+endpoint, nil)
	id := s.runJob(t)
	if code := s.Server.Stop(); code != exitOK {
		t.Fatalf("easel exited with %d\n%s", code, s.Server.Stderr)
	}
	if code := between.Stop(); code != 0 { // the Collector forwards all received data before it exits
		t.Fatalf("the Collector exited with %d\n%s", code, between.Stderr)
	}
	if strings.Contains(s.Server.Stderr.String(), "OpenTelemetry reports an error") {
		t.Errorf("the Collector did not accept everything:\n%s", s.Server.Stderr)
	}
	sink.holdJob(t, s.Sandbox.Key, id)
}
