package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server"
)

// fullAttacks makes the attacks of their documented size; `make test-attacks` sets it. Otherwise
// they are short, and times are not held to anything.
var fullAttacks = os.Getenv("EASEL_TEST_ATTACKS") == "full"

// attackOf is the size of an attack.
func attackOf(short, full int) int {
	if fullAttacks {
		return full
	}
	return short
}

// skipShortAttack skips an attack that uses all processors or waits in real time.
func skipShortAttack(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
}

// neighbour is what became of an honest caller's calls, and what the process took meanwhile.
type neighbour struct {
	p99    time.Duration
	errors int
	memory int64
}

// observe makes a call every few milliseconds, however long the ones before take.
func observe(t *testing.T, lasts time.Duration, call func(context.Context) error) (seen neighbour) {
	t.Helper()
	debug.FreeOSMemory()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	tick := time.NewTicker(4 * time.Millisecond)
	defer tick.Stop()
	var mu sync.Mutex
	var took []time.Duration
	var calls sync.WaitGroup
	for ctx.Err() == nil {
		calls.Go(func() {
			began := time.Now()
			err := call(context.WithoutCancel(ctx))
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, time.Since(began)); err != nil {
				seen.errors++
			}
		})
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		seen.memory = max(seen.memory, int64(m.HeapInuse+m.StackInuse))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	calls.Wait()
	slices.Sort(took)
	seen.p99 = took[len(took)*99/100]
	return seen
}

// attackLasts is how long a neighbour is observed, without and under an attack.
var attackLasts = time.Duration(attackOf(1, 8)) * time.Second

// withstand observes a neighbour without and under an attack, which lasts as long as its context.
// Who may call takes his share of the processors: then the neighbour is not held to its times.
func withstand(t *testing.T, mayCall bool, call func(context.Context) error, attack func(context.Context)) {
	t.Helper()
	skipShortAttack(t)
	lasts := attackLasts
	quiet := observe(t, lasts, call)
	ctx, stop := context.WithCancel(t.Context())
	var attacking sync.WaitGroup
	attacking.Go(func() { attack(ctx) })
	attacked := observe(t, lasts, call)
	stop()
	attacking.Wait()
	rise := attacked.memory - quiet.memory
	t.Logf("quiet / attacked: neighbour p99 %v / %v, errors %d / %d, memory %.1f / %.1f MiB", quiet.p99.Round(10*time.Microsecond),
		attacked.p99.Round(10*time.Microsecond), quiet.errors, attacked.errors, float64(quiet.memory)/(1<<20), float64(attacked.memory)/(1<<20))
	if attacked.errors > 0 {
		t.Errorf("%d of the neighbour's calls failed", attacked.errors)
	}
	if most := attackRise(mayCall); rise > most {
		t.Errorf("memory rose by %d MB", rise/1_000_000)
	}
	if fullAttacks && !mayCall && attacked.p99 > max(2*quiet.p99, attackNoise) {
		t.Errorf("the neighbour's p99 rose from %v to %v", quiet.p99, attacked.p99)
	}
}

// attackNoise is a p99 that says nothing: attackers, server and neighbour share the processors.
const attackNoise = 20 * time.Millisecond

// attackRise is how far the memory may rise, the attackers' own included: who may call may fill
// the places of calls.
func attackRise(mayCall bool) int64 {
	if mayCall {
		return int64(server.CallMemory)
	}
	return 100_000_000
}

// heldBack is a message of the largest size whose last byte never comes.
type heldBack struct {
	ctx  context.Context
	head []byte
	left int
}

// newHeldBack is one with a head, of n bytes.
func newHeldBack(ctx context.Context, head []byte, n int) *heldBack {
	return &heldBack{ctx, head, n - 1}
}

// Read implements io.Reader.
func (h *heldBack) Read(p []byte) (n int, err error) {
	if len(h.head) > 0 {
		n = copy(p, h.head)
		h.head = h.head[n:]
		return n, nil
	}
	if h.left == 0 {
		<-h.ctx.Done()
		return 0, h.ctx.Err()
	}
	n = min(len(p), h.left)
	h.left -= n
	return n, nil
}

// prefix is that of a gRPC message of n bytes.
func prefix(n int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(n)) }

// clear is a transport of its own that speaks HTTP/2 without TLS to the gRPC address.
func (s *stack) clear() *http.Transport {
	addr := strings.TrimPrefix(s.grpc.Target(), "passthrough:///")
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return transport
}

// holdMessages makes gRPC calls on one connection that hold back the last byte, and counts how they
// are answered. A call that is answered is over.
func (s *stack) holdMessages(ctx context.Context, calls int, method, key string) map[string]int {
	transport := s.clear()
	defer transport.CloseIdleConnections()
	return each(calls, func() string {
		ctx, over := context.WithCancel(ctx)
		defer over()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://easel.test"+method,
			newHeldBack(ctx, prefix(server.MessageBytes), server.MessageBytes))
		if err != nil {
			return err.Error()
		}
		r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return "none"
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.Header.Get("Grpc-Status") + answer.Trailer.Get("Grpc-Status")
	})
}

// holdBodies does the same over REST, with a connection for each.
func (s *stack) holdBodies(ctx context.Context, calls int, key string) map[string]int {
	transport := &http.Transport{DisableKeepAlives: true}
	return each(calls, func() string {
		ctx, over := context.WithCancel(ctx)
		defer over()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.restURL+"/v1/generations", newHeldBack(ctx, nil, server.MessageBytes))
		if err != nil {
			return err.Error()
		}
		r.ContentLength = int64(server.MessageBytes)
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return "none"
		}
		answer.Body.Close()
		return fmt.Sprint(answer.StatusCode)
	})
}

// each makes calls one soon after the other, and counts how they ended: an attacker holds on, and
// does not flood.
func each(calls int, one func() string) map[string]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	ended := map[string]int{}
	next := time.NewTicker(attackLasts / 2 / time.Duration(calls))
	defer next.Stop()
	for range calls {
		<-next.C
		all.Go(func() {
			how := one()
			mu.Lock()
			defer mu.Unlock()
			ended[how]++
		})
	}
	all.Wait()
	return ended
}

// account reads the balance of an honest caller.
func account(c caller) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.call(ctx, "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
	}
}

func TestAttackMessagesHeldBackWithoutACredential(t *testing.T) { // A1
	for _, method := range []string{
		easelv1.GenerationService_CreateGeneration_FullMethodName, easelv1.GenerationService_WatchGenerations_FullMethodName,
	} {
		t.Run(method, func(t *testing.T) {
			s, calls := newStack(t), attackOf(100, 1000)
			var ended map[string]int
			withstand(t, false, account(grpcCaller{s, s.key}), func(context.Context) {
				ended = s.holdMessages(t.Context(), calls, method, "") // each ends by itself
			})
			if ended["16"] != calls {
				t.Errorf("of %d calls ended by status: %v", calls, ended)
			}
		})
	}
}

func TestAttackMessagesHeldBackWithACredential(t *testing.T) { // A1
	s, calls := newStack(t), attackOf(100, 1000)
	honest, err := s.sandbox.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 100})
	if err != nil {
		t.Fatal(err)
	}
	if err := account(grpcCaller{s, s.key})(t.Context()); err != nil { // the catalog has accepted the attacker
		t.Fatal(err)
	}
	withstand(t, true, account(grpcCaller{s, honest}), func(ctx context.Context) {
		ended := s.holdMessages(ctx, calls, easelv1.GenerationService_CreateGeneration_FullMethodName, s.key)
		t.Logf("ended by status: %v", ended)
	})
}

func TestAttackMessagesHeldBackFromAnOpenMethod(t *testing.T) { // A1
	s, calls := newStack(t), attackOf(100, 1000)
	withstand(t, true, account(grpcCaller{s, s.key}), func(ctx context.Context) {
		ended := s.holdMessages(ctx, calls, "/grpc.health.v1.Health/Check", "")
		t.Logf("ended by status: %v", ended)
	})
}

func TestAttackBodiesHeldBack(t *testing.T) { // A2
	for _, test := range []struct {
		name string
		key  func(*stack) string
	}{
		{"without a credential", func(*stack) string { return "" }},
		{"under a made-up key", func(*stack) string { return "made-up" }},
		{"with a credential", func(s *stack) string { return s.key }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, calls := newStack(t), attackOf(100, 1000)
			honest, err := s.sandbox.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 100})
			if err != nil {
				t.Fatal(err)
			}
			if err := account(grpcCaller{s, s.key})(t.Context()); err != nil {
				t.Fatal(err)
			}
			withstand(t, test.key(s) != "", account(grpcCaller{s, honest}), func(ctx context.Context) {
				t.Logf("ended by status: %v", s.holdBodies(ctx, calls, test.key(s)))
			})
		})
	}
}

func TestAttackStreamsUnderMadeUpKeysThatAskNothing(t *testing.T) { // A3
	const keys = 3
	streams := attackOf(100, 1000) // of each key
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, func(o *options) {
			o.memory, o.sandbox.Speed = true, 0.1
			o.server.Limits = server.Limits{Streams: keys * streams, StreamsPerConn: 5000}
		})
		honest := grpcCaller{s, s.key}
		g := create(t, honest, order(t, picture, "k", "a lake"))
		var attackers sync.WaitGroup
		for key := range keys {
			for range streams {
				attackers.Go(func() { s.askNothing(t, grpcCaller{s, fmt.Sprintf("made-up-%d", key)}) })
			}
		}
		synctest.Wait()
		began := time.Now()
		for range 10 {
			if err := honest.watchMany(t.Context(), &easelv1.WatchGenerationsRequest{GenerationIds: []string{g.GetGenerationId()}}, oneMessage); err != nil {
				t.Errorf("an honest watch is answered with %v", err)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the honest watches were let in after %v", took)
		}
		attackers.Wait()
	})
}

// askNothing opens a stream, sends nothing, and waits for its end.
func (s *stack) askNothing(t *testing.T, c grpcCaller) {
	t.Helper()
	began := time.Now()
	stream, err := s.grpc.NewStream(c.keyed(t.Context()), &grpc.StreamDesc{ServerStreams: true}, easelv1.GenerationService_WatchGeneration_FullMethodName)
	if err != nil {
		t.Error(err)
		return
	}
	err = stream.RecvMsg(&easelv1.WatchGenerationResponse{})
	if st := statusOf(t, err); st.Code() != codes.Unauthenticated && !overloaded(err) { // rejected, or one of too many that wait for that
		t.Errorf("it ends with %v", st)
	}
	if took := time.Since(began); took > server.RequestTimeout {
		t.Errorf("a stream without a message was open for %v", took)
	}
}

func TestAttackWatchesUnderMadeUpKeys(t *testing.T) { // A3
	streams := attackOf(100, 1000)
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, func(o *options) {
			o.memory, o.sandbox.Speed, o.server.Limits.Streams = true, 0.1, streams
			o.wrap = func(next http.RoundTripper) http.RoundTripper { return silentTo{"made-up", next} }
		})
		honest := grpcCaller{s, s.key}
		g := create(t, honest, order(t, picture, "k", "a lake"))
		ctx, leave := context.WithCancel(t.Context())
		var attackers sync.WaitGroup
		for n := range streams {
			attackers.Go(func() {
				c := grpcCaller{s, fmt.Sprintf("made-up-%d", n)}
				_ = c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: "g", HeartbeatInterval: durationpb.New(time.Minute)},
					func(*easelv1.WatchGenerationResponse) {})
			})
		}
		synctest.Wait()
		for n := range streams * 3 / 4 {
			attackers.Go(func() {
				err := honest.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()}, func(*easelv1.WatchGenerationResponse) {})
				if ctx.Err() == nil {
					t.Errorf("honest watch %d: %v", n+1, err)
				}
			})
		}
		synctest.Wait()
		time.Sleep(5 * time.Second) // in virtual time
		leave()
		attackers.Wait()
	})
}

// silentTo never answers under API keys that begin so.
type silentTo struct {
	prefix string
	next   http.RoundTripper
}

func (s silentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "+s.prefix) {
		<-r.Context().Done()
		return nil, errors.New("no answer")
	}
	return s.next.RoundTrip(r)
}
