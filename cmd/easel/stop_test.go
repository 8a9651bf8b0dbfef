package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestTheStepsOfAStopShareOneDeadline(t *testing.T) {
	for name, test := range map[string]struct{ limit, calls, orders, whole time.Duration }{
		"every step takes all it may":     {limit: 10 * time.Second, calls: 7500 * time.Millisecond, orders: time.Second, whole: 9500 * time.Millisecond},
		"calls end at once":               {limit: 10 * time.Second, orders: 8500 * time.Millisecond, whole: 9500 * time.Millisecond},
		"telemetry has its least":         {limit: time.Second, calls: 750 * time.Millisecond, orders: 100 * time.Millisecond, whole: 1850 * time.Millisecond},
		"calls took longer than they may": {limit: 10 * time.Second, calls: 12 * time.Second, whole: 13 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock, began := &stopClock{limit: test.limit}, time.Now()
				clock.start()
				if test.calls > 0 && test.calls < test.limit && clock.calls() != test.calls {
					t.Errorf("calls have %v, want %v", clock.calls(), test.calls)
				}
				time.Sleep(test.calls)
				orders, cancel := clock.forOrders(t.Context())
				defer cancel()
				<-orders.Done()
				if took := time.Since(began) - test.calls; took != test.orders {
					t.Errorf("orders have %v, want %v", took, test.orders)
				}
				telemetry, cancel := clock.forTelemetry(t.Context())
				defer cancel()
				<-telemetry.Done()
				if took := time.Since(began); took != test.whole {
					t.Errorf("the stop takes %v, want %v", took, test.whole)
				}
			})
		})
	}
}

func TestAStopGoesOnWithoutPollsThatDoNotEnd(t *testing.T) { // A4
	synctest.Test(t, func(t *testing.T) {
		clock, began, stuck := &stopClock{limit: 10 * time.Second}, time.Now(), make(chan struct{})
		clock.forPolls(func() {})
		if took := time.Since(began); took != 0 {
			t.Errorf("polls that end at once take %v", took)
		}
		clock.forPolls(func() { <-stuck })
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("polls that do not end take %v", took)
		}
		close(stuck)
	})
}

// deadCollector takes connections and answers nothing. The channel has a value for each.
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

// hangingCatalog takes orders and answers nothing. The channel has a value for each.
func hangingCatalog(t *testing.T) (url string, ordered <-chan struct{}) {
	t.Helper()
	orders, release := make(chan struct{}, 100), make(chan struct{})
	catalog := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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

func TestADeadCollectorAndAHangingOrderDoNotHoldTheExit(t *testing.T) { // N4, N5
	const limit = 4 * time.Second
	collector, connected := deadCollector(t)
	catalog, ordered := hangingCatalog(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
	served := start(t, map[string]string{
		"EASEL_UPSTREAM_URL": catalog, "EASEL_DRAIN_TIMEOUT": limit.String(),
		"EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0",
	}, func(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 3 }, "serve")
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		orderOverREST(t, find(t, `"server":"http","addr":"([^"]+)"`, served.stderr.String()))
	}()
	<-ordered
	began := time.Now()
	if code := served.stop(); code != exitOK {
		t.Errorf("a stop that was asked for ends with %d\n%s", code, served.stderr)
	}
	took := time.Since(began)
	<-cut
	if took > limit+time.Second {
		t.Errorf("the exit took %v", took)
	}
	if len(connected) == 0 {
		t.Error("nothing was sent to the collector")
	}
	for _, part := range []string{"left before every outcome was known", "telemetry was not sent in full"} {
		if !strings.Contains(served.stderr.String(), part) {
			t.Errorf("%q is not in\n%s", part, served.stderr)
		}
	}
}

// giveUpAfter says how long one export may take, and waits at the end of the test for those that
// still do: a process ends with what it tries to send, and a test does not.
func giveUpAfter(t *testing.T, limit time.Duration) {
	t.Helper()
	for _, setting := range []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT"} {
		t.Setenv(setting, strconv.FormatInt(limit.Milliseconds(), 10))
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		for limit := time.Now().Add(20 * time.Second); goleak.Find(before) != nil && time.Now().Before(limit); {
		}
	})
}

// missingCollector is an address where nobody listens.
func missingCollector(t *testing.T) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	return "http://" + listener.Addr().String()
}

func TestWhateverTheCollectorDoesTheExitComesWithinTenSeconds(t *testing.T) { // N5
	const lag = 2 * time.Second
	giveUpAfter(t, 6*time.Second) // which is after the limit
	stuck, connected := deadCollector(t)
	slow := startSlowCollector(t, lag)
	services := map[string]*traced{}
	for kind, endpoint := range map[string]string{"dead": missingCollector(t), "stuck": stuck, "slow": "http://" + slow.addr} {
		services[kind] = startExporting(t, endpoint)
		services[kind].caller(t)()
	}
	var took sync.Map
	var stops sync.WaitGroup
	for kind, s := range services {
		stops.Go(func() {
			began := time.Now()
			if code := s.served.stop(); code != exitOK {
				t.Errorf("beside a %s collector the stop ends with %d\n%s", kind, code, s.served.stderr)
			}
			took.Store(kind, time.Since(began))
		})
	}
	stops.Wait()
	for kind, s := range services {
		exit, _ := took.Load(kind)
		t.Logf("beside a %s collector the exit took %v", kind, exit)
		if exit.(time.Duration) > 10*time.Second {
			t.Errorf("beside a %s collector the exit took %v", kind, exit)
		}
		if lost := strings.Contains(s.served.stderr.String(), "telemetry was not sent in full"); lost == (kind == "slow") {
			t.Errorf("a %s collector: it is said that something was lost: %v\n%s", kind, lost, s.served.stderr)
		}
	}
	if exit, _ := took.Load("slow"); exit.(time.Duration) < lag {
		t.Errorf("nothing had to be waited for: %v", exit)
	}
	if len(connected) == 0 || len(slow.trace(t).spans) == 0 {
		t.Error("a collector was sent nothing")
	}
}

// orderOverREST places an order, whatever becomes of it.
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
