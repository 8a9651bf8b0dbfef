package systemtest

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// deadCollector starts a collector behind a proxy, and returns the proxy. Clients can connect, but never get a
// response.
func deadCollector(t *testing.T) *proctest.Wire {
	t.Helper()
	wire := proctest.NewWire(t, startCollector(t, 0).addr)
	wire.Darken()
	return wire
}

// Each of three servers must exit within ten seconds. They export to different collectors: one that is not
// running, one that never responds, and a slow one. The catalog of the second server also never responds to an
// order.
func TestProcessExitsInTenSecondsDespiteCollectorFaults(t *testing.T) {
	t.Parallel()
	const lag = 2 * time.Second
	after := proctest.Settings{"OTEL_BSP_EXPORT_TIMEOUT": "6000", "OTEL_EXPORTER_OTLP_TIMEOUT": "6000"} // 6 s, which exceeds both the lag of 2 s and the drain timeout of 4 s
	stuck, slow := deadCollector(t), startCollector(t, lag)
	services := map[string]traced{}
	for kind, endpoint := range map[string]string{"dead": "http://" + proctest.DeadAddress(t), "stuck": "http://" + stuck.Address, "slow": "http://" + slow.addr} {
		settings := after
		if kind == "stuck" {
			settings = after.With(proctest.Settings{"EASEL_DRAIN_TIMEOUT": "4s"}) // a short drain timeout, because the server spends most of it waiting for the order
		}
		services[kind] = startExporting(t, endpoint, settings)
		services[kind].caller(t)()
	}
	hanging := services["stuck"]
	hanging.Fault(`{"route": "POST /generations", "hang": true}`)
	proctest.Start(t, proctest.Environ(facility(hanging).caller(hanging.Sandbox.Key)), proctest.Easel(t), "generate", "studio/haiku", "prompt=rain")
	waitFor(t, "an order at the catalog", func() bool { return strings.Contains(hanging.Control(http.MethodGet, "faults", ""), `"fired": 1`) }, hanging.Status)
	var took sync.Map
	var stops sync.WaitGroup
	for kind, s := range services {
		stops.Go(func() {
			began := time.Now()
			if code := s.Server.Stop(); code != exitOK {
				t.Errorf("with a %s collector the exit code is %d\n%s", kind, code, s.Server.Stderr)
			}
			took.Store(kind, time.Since(began))
		})
	}
	stops.Wait()
	for kind, s := range services {
		exit, _ := took.Load(kind)
		t.Logf("with a %s collector the exit took %v", kind, exit)
		if exit.(time.Duration) > 10*time.Second { // a rough limit, because TestShutdownContinuesDespiteStuckStage measures the time of each stage
			t.Errorf("with a %s collector the exit took %v", kind, exit)
		}
		if lost := strings.Contains(s.Server.Stderr.String(), `"stage not stopped","stage":"telemetry"`); lost == (kind == "slow") {
			t.Errorf("with a %s collector, lost telemetry is logged: %v\n%s", kind, lost, s.Server.Stderr)
		}
	}
	if !strings.Contains(hanging.Server.Stderr.String(), `"stage not stopped","stage":"orders"`) {
		t.Errorf("the log does not report the hanging order:\n%s", hanging.Server.Stderr)
	}
	if exit, _ := took.Load("slow"); exit.(time.Duration) < lag {
		t.Errorf("the exit did not wait for the slow collector: %v", exit)
	}
	if len(slow.exportedSpans()) == 0 {
		t.Error("the slow collector has received nothing")
	}
}
