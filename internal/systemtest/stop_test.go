package systemtest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// deadCollector starts a collector that accepts connections but never responds. It sends each connection to the
// channel.
func deadCollector(t *testing.T) (url string, connected <-chan net.Conn) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns, done := make(chan net.Conn, 100), make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns <- conn
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
		close(conns)
		for conn := range conns {
			conn.Close()
		}
	})
	return "http://" + listener.Addr().String(), conns
}

// hangingCatalog starts a catalog that accepts orders but never responds. It sends a value to the channel for each
// order.
func hangingCatalog(t *testing.T) (url string, ordered <-chan struct{}) {
	t.Helper()
	orders, release := make(chan struct{}, 100), make(chan struct{})
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // this request verifies the API key
			_, _ = io.WriteString(w, `{"balanceCents":100}`)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		orders <- struct{}{}
		<-release
	}))
	t.Cleanup(func() {
		close(release)
		catalog.Close()
	})
	return catalog.URL, orders
}

func TestADeadCollectorAndAHangingOrderDoNotHoldTheExit(t *testing.T) { // faults N4, N5
	t.Parallel()
	collector, connected := deadCollector(t)
	catalog, ordered := hangingCatalog(t)
	served := proctest.Serve(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector,
		"EASEL_UPSTREAM_URL":          catalog, "EASEL_DRAIN_TIMEOUT": "4s",
	})
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		orderOverREST(t, served.HTTP)
	}()
	<-ordered
	began := time.Now()
	if code := served.Stop(); code != exitOK {
		t.Errorf("after a requested stop the exit code is %d\n%s", code, served.Stderr)
	}
	took := time.Since(began)
	<-cut
	if took > 10*time.Second { // a rough limit, because TestStopContinuesWithoutAStuckStage measures the time of each stage
		t.Errorf("the exit took %v", took)
	}
	if len(connected) == 0 {
		t.Error("nothing was sent to the collector")
	}
	for _, part := range []string{`"stage not stopped","stage":"orders"`, `"stage not stopped","stage":"telemetry"`} {
		if !strings.Contains(served.Stderr.String(), part) {
			t.Errorf("%q is not in\n%s", part, served.Stderr)
		}
	}
}

// missingCollector returns a URL at which no collector listens.
func missingCollector(t *testing.T) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	return "http://" + listener.Addr().String()
}

func TestWhateverTheCollectorDoesTheExitComesWithinTenSeconds(t *testing.T) { // fault N5
	t.Parallel()
	const lag = 2 * time.Second
	after := map[string]string{"OTEL_BSP_EXPORT_TIMEOUT": "6000", "OTEL_EXPORTER_OTLP_TIMEOUT": "6000"} // longer than the time limit of the shutdown
	stuck, connected := deadCollector(t)
	slow := startCollector(t, lag)
	services := map[string]traced{}
	for kind, endpoint := range map[string]string{"dead": missingCollector(t), "stuck": stuck, "slow": "http://" + slow.addr} {
		services[kind] = startExporting(t, endpoint, after)
		services[kind].caller(t)()
	}
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
		if exit.(time.Duration) > 10*time.Second {
			t.Errorf("with a %s collector the exit took %v", kind, exit)
		}
		if lost := strings.Contains(s.Server.Stderr.String(), `"stage not stopped","stage":"telemetry"`); lost == (kind == "slow") {
			t.Errorf("with a %s collector, lost telemetry is logged: %v\n%s", kind, lost, s.Server.Stderr)
		}
	}
	if exit, _ := took.Load("slow"); exit.(time.Duration) < lag {
		t.Errorf("the exit did not wait for the slow collector: %v", exit)
	}
	if len(connected) == 0 || len(slow.exported()) == 0 {
		t.Error("a collector has received nothing")
	}
}

// orderOverREST places an order over REST and ignores the result.
func orderOverREST(t *testing.T, addr string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/generations",
		strings.NewReader(`{"modelId":"a/b","inputs":{},"idempotencyKey":"k"}`))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer easel_live_Zk3xQ9vL2mN8")
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if answer, err := client.Do(r); err == nil {
		answer.Body.Close()
	}
}
