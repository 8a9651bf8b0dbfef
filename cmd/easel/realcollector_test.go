//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shippedCollector is the configuration that deploy/ has.
const shippedCollector = "../../deploy/otel/collector.yaml"

// forThisMachine is what a test changes in it: free ports, an end that the test can look into,
// and no time to wait for more. Metrics go the way of traces, which in deploy/ they don't.
const forThisMachine = `
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}, http: {endpoint: "127.0.0.1:0"}}}}
processors: {batch: {timeout: 50ms}}
exporters: {otlp_grpc: {endpoint: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [otlp], processors: [memory_limiter, batch], exporters: [otlp_grpc]}}
`

// openTelemetryCollector gives the program that make test-collector builds.
func openTelemetryCollector(t *testing.T) string {
	t.Helper()
	path := os.Getenv("EASEL_COLLECTOR")
	if path == "" {
		t.Skip("make test-collector builds the OpenTelemetry Collector, and runs this")
	}
	return path
}

// startProcess runs a program until its output shows what ready looks for. It is told to end
// by a signal, as it would be elsewhere.
func startProcess(t *testing.T, env []string, ready func(stdout, stderr string) bool, path string, args ...string) (*running, *exec.Cmd) {
	t.Helper()
	r := &running{stdout: newBuffer(), stderr: newBuffer()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, path, args...)
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), env...), r.stdout, r.stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 20 * time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // its state is looked at
	}()
	r.stop = func() int {
		cancel()
		<-ended
		return command.ProcessState.ExitCode()
	}
	t.Cleanup(func() { r.stop() })
	limit := time.After(20 * time.Second)
	for !ready(r.stdout.String(), r.stderr.String()) {
		select {
		case <-r.stdout.written:
		case <-r.stderr.written:
		case <-ended:
			t.Fatalf("ended before it was ready\n%s%s", r.stdout, r.stderr)
		case <-limit:
			t.Fatalf("not ready\n%s%s", r.stdout, r.stderr)
		}
	}
	return r, command
}

// startRealCollector starts the Collector with the shipped configuration, which hands on what
// it takes to a sink of the test.
func startRealCollector(t *testing.T, program string, sink *collector) (*running, *exec.Cmd, string) {
	t.Helper()
	changes := filepath.Join(t.TempDir(), "changes.yaml")
	if err := os.WriteFile(changes, fmt.Appendf(nil, forThisMachine, sink.addr), 0o600); err != nil {
		t.Fatal(err)
	}
	r, command := startProcess(t, nil, func(_, stderr string) bool { return strings.Contains(stderr, "Everything is ready") },
		program, "--config="+shippedCollector, "--config="+changes)
	return r, command, find(t, `Starting GRPC server.*"endpoint": "([^"]+)"`, r.stderr.String())
}

// startRealEasel starts the program itself, with a catalog within it.
func startRealEasel(t *testing.T, bin, endpoint string) *traced {
	t.Helper()
	served, _ := startProcess(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "EASEL_POLL_MIN_INTERVAL=200ms",
	}, func(stdout, stderr string) bool {
		return strings.Contains(stdout, "Ctrl-C") && strings.Count(stderr, `"listening"`) == 3
	}, bin, "dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--balance", "7.00", "--speed", "5", "--seed", "1")
	return &traced{served: served, key: find(t, `key +(sandbox_live_\w+)`, served.stdout.String())}
}

func TestTheCollectorTakesTheShippedConfigurationAndRefusesASlip(t *testing.T) {
	program := openTelemetryCollector(t)
	if out, err := exec.CommandContext(t.Context(), program, "validate", "--config="+shippedCollector).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	slip := filepath.Join(t.TempDir(), "slip.yaml")
	text := strings.Replace(readFile(t, "deploy", "otel", "collector.yaml"), "limit_mib", "limit_mb", 1)
	if err := os.WriteFile(slip, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "validate", "--config="+slip).CombinedOutput(); err == nil || !regexp.MustCompile(`limit_mb\b`).Match(out) {
		t.Errorf("a member that does not exist is taken: %v\n%s", err, out)
	}
}

func TestARealCollectorHandsOnTheTraceOfAJobAndTheMetrics(t *testing.T) {
	program, bin := openTelemetryCollector(t), filepath.Join(t.TempDir(), "easel")
	compile(t, bin, "easel", "build", "-o", bin, ".")
	for form, run := range forms {
		t.Run(form, func(t *testing.T) {
			sink := startCollector(t)
			between, _, endpoint := startRealCollector(t, program, sink)
			s := startRealEasel(t, bin, endpoint)
			s.collector = sink
			j := run(s, t)
			if code := s.served.stop(); code != exitOK {
				t.Fatalf("easel ended with %d\n%s", code, s.served.stderr)
			}
			if code := between.stop(); code != 0 { // what it has taken, it hands on first
				t.Fatalf("the Collector ended with %d\n%s", code, between.stderr)
			}
			if strings.Contains(s.served.stderr.String(), "OpenTelemetry reports an error") {
				t.Errorf("not all was taken:\n%s", s.served.stderr)
			}
			holdJob(t, s, form, j)
		})
	}
}

func TestARealCollectorThatIsStoppedHoldsNeitherACallNorTheExit(t *testing.T) { // N5
	program, bin := openTelemetryCollector(t), filepath.Join(t.TempDir(), "easel")
	compile(t, bin, "easel", "build", "-o", bin, ".")
	sink := startCollector(t)
	_, process, endpoint := startRealCollector(t, program, sink)
	if err := process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Signal(syscall.SIGCONT) })
	s := startRealEasel(t, bin, endpoint)
	s.overGRPC(t)
	began := time.Now()
	if code := s.served.stop(); code != exitOK {
		t.Errorf("easel ended with %d\n%s", code, s.served.stderr)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the exit took %v", took)
	}
	if sink.mu.Lock(); len(sink.spans) > 0 {
		t.Error("the Collector was not stopped")
	}
	sink.mu.Unlock()
	if !strings.Contains(s.served.stderr.String(), "telemetry was not sent in full") {
		t.Errorf("it is not said that traces were lost:\n%s", s.served.stderr)
	}
}
