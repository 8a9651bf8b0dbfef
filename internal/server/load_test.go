package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// A slow catalog: it is reached over so many connections, and takes so long for each
// answer. Whoever finds no connection free waits for one in order of arrival, as in the
// standard library's transport.
const (
	slowConns    = 64
	slowAnswer   = 100 * time.Millisecond
	slowCapacity = slowConns * int(time.Second/slowAnswer) // requests a second
	slowLimit    = slowConns * 15 / 16                     // of the facade, as it has by itself
	loadLasts    = 3 * time.Second
	callerWaits  = time.Second // the deadline of every call
	noLimit      = 1_000_000
)

type slowCatalog struct {
	conns chan struct{}
	peak  atomic.Int64 // requests at once
}

func (c *slowCatalog) RoundTrip(r *http.Request) (*http.Response, error) {
	if cap(c.conns) == 0 && strings.HasSuffix(r.URL.Path, "/me") { // or no API key would be proved
		return handled{http.HandlerFunc(c.answer)}.RoundTrip(r)
	}
	select {
	case c.conns <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	defer func() { <-c.conns }()
	if n := int64(len(c.conns)); n > c.peak.Load() {
		c.peak.Store(n)
	}
	select {
	case <-time.After(slowAnswer):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return handled{http.HandlerFunc(c.answer)}.RoundTrip(r)
}

func (*slowCatalog) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"gen_%s","modelId":"m","status":"queued","costCents":1}`, r.Header.Get("Idempotency-Key"))
	case strings.HasSuffix(r.URL.Path, "/generations"):
		fmt.Fprint(w, `[]`)
	default:
		fmt.Fprint(w, `{"id":"gen_1","modelId":"m","status":"queued"}`)
	}
}

// goodput is what became of the calls of a load, by method.
type goodput struct {
	mu                    sync.Mutex
	asked, served, refuse map[string]int
	longest               time.Duration // that a refusal took
}

func (g *goodput) total() (n int) {
	for _, served := range g.served {
		n += served
	}
	return n
}

func (g *goodput) share(method string) float64 {
	return float64(g.served[method]) / float64(g.asked[method])
}

func (g *goodput) count(method string, err error, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[method]++
	switch {
	case err == nil:
		g.served[method]++
	case overloaded(err):
		g.refuse[method]++
		g.longest = max(g.longest, took)
	}
}

// The mixed load: of ten calls two are orders and eight reads. One list serves all who ask, so lists are no load.
func mixed(n int) (method string, req, resp proto.Message) {
	switch n % 5 {
	case 0:
		return "GenerationService/CreateGeneration", &easelv1.CreateGenerationRequest{
			ModelId: "m", InputsJson: "{}", IdempotencyKey: fmt.Sprintf("k%d", n),
		}, &easelv1.CreateGenerationResponse{}
	}
	return "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{
		GenerationId: "gen_1", MaxStaleness: durationpb.New(0),
	}, &easelv1.GetGenerationResponse{}
}

// offer makes so many calls a second, whatever becomes of them, and counts. Two callers take turns, as one may not have all turns.
func offer(t *testing.T, callers [2]caller, rate int) *goodput {
	t.Helper()
	g := &goodput{asked: map[string]int{}, served: map[string]int{}, refuse: map[string]int{}}
	var all sync.WaitGroup
	for n := range int(loadLasts.Seconds() * float64(rate)) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), callerWaits)
			defer cancel()
			method, req, resp := mixed(n)
			began := time.Now()
			err := callers[n%2].call(ctx, method, req, resp)
			g.count(method, err, time.Since(began))
		})
		time.Sleep(time.Second / time.Duration(rate))
	}
	all.Wait()
	return g
}

// underLoad offers a load to a facade over a slow catalog, beside open watches, and gives
// the longest that a watch heard nothing.
func underLoad(t *testing.T, calls, rate int) (g *goodput, silence time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowCatalog{conns: make(chan struct{}, slowConns)}
		s := newStack(t, func(o *options) {
			o.memory, o.server.Limits.Calls = true, calls
			o.wrap = func(http.RoundTripper) http.RoundTripper { return slow }
			o.hub.MinInterval, o.hub.MaxInterval, o.hub.Rate = time.Second, time.Second, 100
		})
		c, other := grpcCaller{s, s.key}, grpcCaller{s, "another-key"}
		ctx, cancel := context.WithCancel(t.Context())
		var watches sync.WaitGroup
		var longest atomic.Int64
		for range 20 {
			watches.Go(func() {
				heard := time.Now()
				_ = c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: "gen_1", HeartbeatInterval: durationpb.New(time.Second)},
					func(m *easelv1.WatchGenerationResponse) {
						if looked := m.GetHeartbeat().GetObserveTime(); looked != nil {
							heard = looked.AsTime()
						}
						longest.Store(max(longest.Load(), int64(time.Since(heard))))
					})
			})
		}
		for _, c := range []caller{c, other} {
			method, req, resp := mixed(1) // the catalog has accepted the key before
			if err := c.call(t.Context(), method, req, resp); err != nil {
				t.Error(err)
			}
		}
		g = offer(t, [2]caller{c, other}, rate)
		cancel()
		watches.Wait()
		silence = time.Duration(longest.Load())
		t.Logf("limit of %d calls, %d a second: %d served of %d, orders %.3f, reads %.3f; %d requests at once; refused within %v; the oldest state %v",
			calls, rate, g.total(), rate*int(loadLasts/time.Second), g.share("GenerationService/CreateGeneration"),
			g.share("GenerationService/GetGeneration"), slow.peak.Load(), g.longest, silence)
	})
	return g, silence
}

func TestUnderThreeTimesItsCapacityItServesAsMuchAsAtItsPeakAndOrdersFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	peak := 0 // of both, with and without the limit
	for _, limit := range []int{slowLimit, noLimit} {
		g, _ := underLoad(t, limit, slowCapacity)
		peak = max(peak, g.total())
	}
	over, silence := underLoad(t, slowLimit, 3*slowCapacity)
	if ratio := float64(over.total()) / float64(peak); ratio < 0.9 {
		t.Errorf("at three times its capacity it serves %.2f of the peak", ratio)
	}
	if orders := over.share("GenerationService/CreateGeneration"); orders < 0.99 {
		t.Errorf("served are %.3f of the orders", orders)
	}
	if over.longest > 250*time.Millisecond {
		t.Errorf("a refusal took %v", over.longest)
	}
	if silence > 3*time.Second {
		t.Errorf("what a watch knows was %v old", silence)
	}
	for method, asked := range over.asked {
		if over.served[method]+over.refuse[method] != asked {
			t.Errorf("%s: %d of %d calls were neither served nor refused", method, asked-over.served[method]-over.refuse[method], asked)
		}
	}
	// Without the limit the same load breaks the same facade, or the load would prove nothing.
	broken, _ := underLoad(t, noLimit, 3*slowCapacity)
	if ratio := float64(broken.total()) / float64(peak); ratio > 0.7 {
		t.Errorf("without the limit it serves %.2f of the peak: this is no overload", ratio)
	}
}

func TestARefusalForLoadSaysWhenToComeBack(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		ctx, cancel := context.WithCancel(t.Context())
		if err := c.call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{}); err != nil { // which proves the API key
			t.Fatal(err)
		}
		var blocked sync.WaitGroup
		for range 2 { // lists have half of the calls, and half as many may wait
			blocked.Go(func() {
				_ = c.call(ctx, "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{}, &easelv1.ListGenerationsResponse{})
			})
			synctest.Wait()
		}
		err := c.call(t.Context(), "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{}, &easelv1.ListGenerationsResponse{})
		st := wantStatus(t, err, codes.ResourceExhausted, "OVERLOADED", 429)
		if retryDelay(st) < time.Second {
			t.Errorf("the refusal is %v", st)
		}
		cancel()
		blocked.Wait()
	}, func(o *options) {
		o.server.Limits.Calls = 2
		o.wrap = func(http.RoundTripper) http.RoundTripper { return &slowCatalog{conns: make(chan struct{})} } // answers never
	})
}

func overloaded(err error) bool {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == "OVERLOADED" {
			return true
		}
	}
	return false
}
