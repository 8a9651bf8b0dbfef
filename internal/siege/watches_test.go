package siege

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// watchAttack is what an attacker opens, and how long its neighbour is measured.
type watchAttack struct {
	streams, ids int           // ids: of each stream
	pace         time.Duration // from one stream to the next
	measured     time.Duration
	alone        bool // nothing else runs on the machine, so that times can be compared
}

// sized gives the full size where the environment asks for it, else the short one.
func sized(full, short watchAttack) watchAttack {
	if os.Getenv("EASEL_TEST_ATTACKS") == "full" {
		return full
	}
	return short
}

// besieged is a server in a process of its own, over a sandbox in this one.
type besieged struct {
	attacked
	t         *testing.T
	good      string // an API key that the catalog knows
	neighbour string // another
	served    *proctest.Process
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	box, err := sandbox.Open(sandbox.Config{Seed: 7, Speed: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	b := &besieged{t: t}
	for _, key := range []*string{&b.good, &b.neighbour} {
		if *key, err = box.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 100_000}); err != nil {
			t.Fatal(err)
		}
	}
	catalog := httptest.NewServer(box)
	t.Cleanup(catalog.Close)
	b.served = serve(t, map[string]string{"EASEL_UPSTREAM_URL": catalog.URL + sandbox.BasePath})
	b.pid, b.grpc, b.admin = b.served.Pid(), address(t, b.served, "grpc"), address(t, b.served, "admin")
	return b
}

func (b *besieged) dial() *grpc.ClientConn {
	b.t.Helper()
	conn, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn
}

func as(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

// watchQuietly keeps a watch of the neighbour open, whose heartbeats must come, and gives what ends it.
func (b *besieged) watchQuietly(conn *grpc.ClientConn) (stop func()) {
	b.t.Helper()
	client := easelv1.NewGenerationServiceClient(conn)
	ctx, cancel := context.WithCancel(as(b.t.Context(), b.neighbour))
	created, err := client.CreateGeneration(ctx, &easelv1.CreateGenerationRequest{ModelId: "studio/haiku", IdempotencyKey: "k", InputsJson: `{"prompt":"rain"}`})
	if err != nil {
		b.t.Fatal(err)
	}
	stream, err := client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{
		GenerationId: created.GetGeneration().GetGenerationId(), HeartbeatInterval: durationpb.New(time.Second),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for last := time.Now(); ; last = time.Now() {
			_, err := stream.Recv()
			switch silence := time.Since(last); {
			case ctx.Err() != nil:
				return
			case err != nil:
				b.t.Errorf("a neighbour's watch: %v", err)
				return
			case silence > sizeOf(3*time.Second, 15*time.Second): // small attacks run side by side
				b.t.Errorf("a neighbour's watch was silent for %v", silence)
			}
		}
	})
	return func() { cancel(); watching.Wait() }
}

// measure makes calls of the neighbour at a steady rate, whether the ones before were answered or not,
// and gives the 99th percentile of how long they took. Each must be answered.
func (b *besieged) measure(conn *grpc.ClientConn, length time.Duration) time.Duration {
	b.t.Helper()
	const every = 5 * time.Millisecond
	ctx, cancel := context.WithTimeout(as(b.t.Context(), b.neighbour), length+time.Minute)
	defer cancel()
	took := make([]time.Duration, length/every)
	var calls sync.WaitGroup
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := range took {
		due := <-ticker.C
		calls.Go(func() {
			if _, err := easelv1.NewAccountServiceClient(conn).GetAccount(ctx, &easelv1.GetAccountRequest{}); err != nil {
				b.t.Errorf("a neighbour's call: %v", err)
			}
			took[n] = time.Since(due)
		})
	}
	calls.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// ask asks the admin listener, which answers always and soon.
func (b *besieged) ask(path string) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.admin+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer ops") // ignored without a callers file
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
	return body
}

// watching is how many API keys are polled under, and how many watches are open.
func (b *besieged) watching() (keys, watches int) {
	b.t.Helper()
	var status struct{ Watching struct{ Keys, Watches int } }
	if err := json.Unmarshal(b.ask("/status.json"), &status); err != nil {
		b.t.Fatal(err)
	}
	return status.Watching.Keys, status.Watching.Watches
}

// encoded is a message that the attacker has made before, as it shares the processors with its victims.
type encoded []byte

// rawCodec sends encoded messages, and drops what comes.
type rawCodec struct{}

func (rawCodec) Marshal(message any) ([]byte, error) { return message.(encoded), nil }
func (rawCodec) Unmarshal([]byte, any) error         { return nil }
func (rawCodec) Name() string                        { return "proto" }

// attack opens watches at a pace, each under the API key that keyed gives, and gives what ends them.
func (b *besieged) attack(size watchAttack, keyed func(n int) string) (stop func()) {
	b.t.Helper()
	const onEach = 1000
	requests, conns := make([]encoded, size.streams), make([]*grpc.ClientConn, (size.streams+onEach-1)/onEach)
	for n := range requests {
		req := &easelv1.WatchGenerationsRequest{}
		for i := range size.ids {
			req.GenerationIds = append(req.GenerationIds, fmt.Sprintf("made-up-%d-%d", n, i))
		}
		var err error
		if requests[n], err = proto.Marshal(req); err != nil {
			b.t.Fatal(err)
		}
	}
	for n := range conns {
		conns[n] = b.dial()
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		ticker := time.NewTicker(size.pace)
		defer ticker.Stop()
		for n, req := range requests {
			<-ticker.C
			stream, err := conns[n/onEach].NewStream(as(ctx, keyed(n)), &grpc.StreamDesc{ServerStreams: true},
				easelv1.GenerationService_WatchGenerations_FullMethodName, grpc.ForceCodec(rawCodec{}))
			if err != nil || stream.SendMsg(req) != nil || stream.CloseSend() != nil {
				continue // it is refused, or the server stops
			}
			all.Go(func() {
				for stream.RecvMsg(nil) == nil {
				}
			})
		}
	})
	return func() { cancel(); all.Wait() }
}

// stopsInTime ends the server, and fails the test where that takes longer than EASEL_DRAIN_TIMEOUT has it.
func (b *besieged) stopsInTime() time.Duration {
	b.t.Helper()
	began := time.Now()
	if b.served.Stop(); time.Since(began) > 10*time.Second {
		b.t.Error("the process does not end")
	}
	return time.Since(began)
}

func TestAttackByWatchesOfManyMadeUpIDs(t *testing.T) { // A4
	size := sized(watchAttack{1000, 1000, 700 * time.Microsecond, 20 * time.Second, true}, watchAttack{100, 1000, time.Millisecond, time.Second, false})
	for _, accepted := range []bool{false, true} {
		t.Run(fmt.Sprintf("under an API key that the catalog accepts, %v", accepted), func(t *testing.T) {
			b := besiege(t)
			key := "made-up-key"
			if accepted {
				key = b.good
			}
			keyed := func(int) string { return key }
			conn := b.dial()
			watched := b.watchQuietly(conn)
			b.measure(conn, time.Second/4) // makes connections
			quiet := b.measure(conn, size.measured)
			before, _ := b.resident(t)
			leave := b.attack(size, keyed)
			attacked := b.measure(conn, size.measured)
			b.watching()
			leave()
			left := b.measure(conn, size.measured)
			_, highest := b.resident(t)
			leave = b.attack(size, keyed)
			defer leave()
			b.measure(conn, time.Second/2)
			watched()
			exit := b.stopsInTime()
			t.Logf("quiet / attacked / after it: neighbour p99 %v / %v / %v, no errors; memory %d MB, %d MB at most; exit after %v",
				quiet, attacked, left, before>>20, highest>>20, exit)
			if worst := max(attacked, left); size.alone && worst > max(2*quiet, 250*time.Millisecond) {
				t.Errorf("the neighbour's p99 is %v, and %v when it is quiet", worst, quiet)
			}
			if highest-before > 150<<20 {
				t.Errorf("memory rises by %d MB", (highest-before)>>20)
			}
		})
	}
}
