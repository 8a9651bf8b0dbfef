package siege

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	_ "github.com/easel-grpc/easel/internal/ledger" // registers the SQLite driver with the ledger's clock function
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// spliceRecords wraps a catalog. It appends the records in more, which are JSON, to the list in the catalog's responses
// to requests for path.
func spliceRecords(catalog http.Handler, path, more string) http.Handler {
	return changeResponses(catalog, func(asked string) bool { return asked == path }, func(body []byte) []byte {
		at := bytes.LastIndexByte(body, ']')
		if before := bytes.TrimSpace(body[:at]); !bytes.HasSuffix(before, []byte("[")) {
			return bytes.Join([][]byte{body[:at], body[at:]}, []byte(","+more))
		}
		return bytes.Join([][]byte{body[:at], body[at:]}, []byte(more))
	})
}

// changeResponses wraps a catalog and replaces the bodies of its responses to GET requests with the results of
// changeBody. isSelected reports whether the responses for a path are changed.
func changeResponses(catalog http.Handler, isSelected func(path string) bool, changeBody func(body []byte) []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !isSelected(strings.TrimPrefix(r.URL.Path, sandbox.BasePath)) {
			catalog.ServeHTTP(w, r)
			return
		}
		r.Header.Del("If-None-Match")
		answer := httptest.NewRecorder()
		catalog.ServeHTTP(answer, r)
		body := answer.Body.Bytes()
		if answer.Code == http.StatusOK {
			body = changeBody(body)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body) // an error means that Easel has disconnected
	})
}

func newLedger(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "book.db")
}

// placeOrder places an order as the caller in ctx and returns the generation ID.
func (s *siege) placeOrder(ctx context.Context, conn *grpc.ClientConn, key, prompt string) (string, error) {
	created, err := easelv1.NewGenerationServiceClient(conn).CreateGeneration(ctx, &easelv1.CreateGenerationRequest{
		ModelId: "studio/haiku", IdempotencyKey: key, InputsJson: fmt.Sprintf(`{"prompt":%q}`, prompt),
	})
	return created.GetGeneration().GetGenerationId(), err
}

// setOwnReads sets s.call to a read of a generation that belongs to the neighbor, the client that does not attack.
func (s *siege) setOwnReads() {
	s.t.Helper()
	id, err := s.placeOrder(proctest.Bearing(s.t.Context(), s.neighbour), s.near, "own", "rain")
	if err != nil {
		s.t.Fatal(err)
	}
	s.call = func(ctx context.Context) error {
		_, err := easelv1.NewGenerationServiceClient(s.near).GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: id, MaxStaleness: durationpb.New(0)})
		return err
	}
}

// setOrderCalls sets s.call to a function that places a new order.
func (s *siege) setOrderCalls() {
	n := atomic.Int64{}
	s.every, s.floor = 50*time.Millisecond, 4*noiseFloor // an order takes longer than other calls, because it waits for the disk four times
	s.call = func(ctx context.Context) error {
		_, err := s.placeOrder(ctx, s.near, fmt.Sprint("order-", n.Add(1)), "rain")
		return err
	}
}

// foreignRecords returns catalog records of generations that were not ordered through Easel. Together, the records have
// about size bytes.
func foreignRecords(size int) string {
	var all strings.Builder
	for n := 0; all.Len() < size; n++ {
		fmt.Fprintf(&all, `{"id":"gen_foreign_%d","modelId":"studio/haiku","status":"succeeded","costCents":2,"inputs":{"prompt":"%s","steps":[1,2,3,4,5,6,7,8]},"seed":%d},`,
			n, strings.Repeat("words ", 100), n)
	}
	return strings.TrimSuffix(all.String(), ",")
}

func TestAttackByLongPromptsDoesNotBreakWatchOfOtherTeam(t *testing.T) {
	long := []byte(`"prompt":"` + strings.Repeat("p", 900_000) + `"`)
	s := newSiege(t, siegeConfig{ledger: newLedger(t), before: func(catalog http.Handler) http.Handler {
		return changeResponses(catalog, func(path string) bool { return strings.HasPrefix(path, "/generations") }, func(body []byte) []byte {
			return bytes.ReplaceAll(body, []byte(`"prompt":"long"`), long) // the long prompt is inserted here, because the sandbox does not allow prompts of this length
		})
	}})
	conn := s.dialFrom("127.0.0.1")
	for n := range 10 {
		if _, err := s.placeOrder(proctest.Bearing(t.Context(), s.attacker), conn, fmt.Sprint("long-", n), "long"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(proctest.Bearing(t.Context(), s.neighbour), time.Minute)
	defer cancel()
	watch, err := easelv1.NewGenerationServiceClient(s.near).WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		id, err := s.placeOrder(ctx, s.near, fmt.Sprint("short-", n), "rain")
		if err != nil {
			t.Fatal(err)
		}
		for ended := false; !ended; {
			m, err := watch.Recv()
			if err != nil {
				t.Fatalf("the neighbor's watch does not report the end of %s: %v", id, err)
			}
			g := m.GetUpdate().GetGeneration()
			ended = g.GetGenerationId() == id && g.GetTerminal()
		}
	}
}

func TestAttackByUsageReportsDoesNotDelayOrders(t *testing.T) {
	for name, size := range map[string]struct{ orders, reports int }{
		"100 reports on 20,000 orders": {sizeOf(20_000, 2_000), sizeOf(100, 20)},
		"8 reports on 300,000 orders":  {sizeOf(300_000, 10_000), 8},
	} {
		t.Run(name, func(t *testing.T) {
			ledgerURL := newLedger(t)
			s := newSiege(t, siegeConfig{ledger: ledgerURL})
			conn := s.dialFrom("127.0.0.1")
			if _, err := s.placeOrder(proctest.Bearing(t.Context(), s.attacker), conn, "first", "rain"); err != nil {
				t.Fatal(err)
			}
			multiplyOrders(t, ledgerURL, "many", size.orders)
			s.setOrderCalls()
			report := mustMarshal(t, &easelv1.ListUsageRequest{
				StartTime: timestamppb.New(time.Now().AddDate(-1, 0, 0)), GroupBy: []easelv1.UsageDimension{easelv1.UsageDimension_USAGE_DIMENSION_DAY, easelv1.UsageDimension_USAGE_DIMENSION_MODEL},
			})
			s.runAlongside(assault{
				workers: size.reports, least: 5, memory: 200 << 20,
				one: func(ctx context.Context, _ int) error {
					return invoke(ctx, conn, s.attacker, easelv1.AccountService_ListUsage_FullMethodName, report)
				},
			})
		})
	}
}

// multiplyOrders inserts copies of an owner's only order into the ledger, so that the owner has count orders.
func multiplyOrders(t *testing.T, ledgerURL, owner string, count int) {
	t.Helper()
	proctest.Exec(t, ledgerURL, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, state, leases, leased_until, order_time, placed_time, retry_time,
			generation_id, status, settled, reserved_cents, cost_cents)
		SELECT id || i, namespace, owner, caller, idempotency_key || i, upstream_key, api_key, model_id, digest, state, leases, leased_until, order_time - i * 60000000, placed_time, retry_time,
			generation_id || i, 4, 1, 0, 2 FROM orders, n WHERE owner = '%s'`, count, owner))
}

func TestAttackByWatchingUnknownIDsDoesNotDelayOrders(t *testing.T) {
	s := newSiege(t, siegeConfig{ledger: newLedger(t)})
	s.setOrderCalls()
	conn := s.dialFrom("127.0.0.1")
	requests := madeUpWatches(t, sizeOf(900, 50))
	s.runAlongside(assault{
		workers: len(requests), least: 50, memory: 300 << 20,
		one: func(ctx context.Context, worker int) error {
			stream, err := s.watchMany(ctx, conn, requests[worker])
			for err == nil {
				err = stream.RecvMsg(encoded(nil))
			}
			select { // without this pause, the processors would be the bottleneck instead of the ledger
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
			}
			return err
		},
	})
}

// madeUpWatches returns n encoded requests. Each of them watches 1,000 made-up IDs.
func madeUpWatches(t *testing.T, n int) [][]byte {
	t.Helper()
	requests := make([][]byte, n)
	for n := range requests {
		watch := &easelv1.WatchGenerationsRequest{}
		for i := range 1000 {
			watch.GenerationIds = append(watch.GenerationIds, fmt.Sprintf("gen_made_up_%d_%d", n, i))
		}
		requests[n] = mustMarshal(t, watch)
	}
	return requests
}

func TestAttackByWatchingUnknownIDsDoesNotDelayOtherCallers(t *testing.T) {
	for name, accepted := range map[string]bool{"under a rejected API key": false, "under an accepted API key": true} {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, siegeConfig{})
			if !accepted {
				s.attacker = "made-up-key"
			}
			s.runAlongside(assault{least: 10, memory: 150 << 20, hold: s.watchOpener(s.dialFrom("127.0.0.1"), madeUpWatches(t, sizeOf(1000, 100)))})
			began := time.Now()
			if s.Stop(); time.Since(began) > 10*time.Second {
				t.Errorf("the server stopped after %v, want at most 10s", time.Since(began))
			}
		})
	}
}

// watchMany opens a WatchGenerations stream as the attacker. request is the encoded request.
func (s *siege) watchMany(ctx context.Context, conn *grpc.ClientConn, request []byte) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(proctest.Bearing(ctx, s.attacker), &grpc.StreamDesc{ServerStreams: true},
		easelv1.GenerationService_WatchGenerations_FullMethodName, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return nil, err
	}
	return stream, errors.Join(stream.SendMsg(encoded(request)), stream.CloseSend())
}

func TestAttackByTeamWithoutOrdersDoesNotDelayOtherTeams(t *testing.T) {
	s := newSiege(t, siegeConfig{ledger: newLedger(t)})
	s.setOwnReads()
	for n := range sizeOf(200, 10) {
		if _, err := s.placeOrder(proctest.Bearing(t.Context(), s.neighbour), s.near, fmt.Sprint("more-", n), "rain"); err != nil {
			t.Fatal(err)
		}
	}
	conn := s.dialFrom("127.0.0.1")
	requests := slices.Repeat([][]byte{mustMarshal(t, &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(time.Second)})}, sizeOf(1000, 50))
	defer s.checkHeartbeats()()
	s.runAlongside(assault{least: 10, memory: 200 << 20, hold: s.watchOpener(conn, requests)})
}

// watchOpener returns a function that opens one watch for each request, as the attacker. That function returns the
// number of watches that it opened. They end when ctx is done.
func (s *siege) watchOpener(conn *grpc.ClientConn, requests [][]byte) func(ctx context.Context) int64 {
	return func(ctx context.Context) (open int64) {
		for _, request := range requests {
			stream, err := s.watchMany(ctx, conn, request)
			if err != nil {
				continue
			}
			open++
			go func() {
				for stream.RecvMsg(encoded(nil)) == nil {
				}
			}()
		}
		return open
	}
}

// checkHeartbeats starts a watch of all generations as the neighbor, the client that does not attack, and checks that
// heartbeats arrive in time. endWatch ends the watch.
func (s *siege) checkHeartbeats() (endWatch func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(proctest.Bearing(s.t.Context(), s.neighbour))
	watch, err := easelv1.NewGenerationServiceClient(s.near).WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(time.Second)})
	if err != nil {
		s.t.Fatal(err)
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for last := time.Now(); ; last = time.Now() {
			_, err := watch.Recv()
			switch silence := time.Since(last); {
			case ctx.Err() != nil:
				return
			case err != nil:
				s.t.Errorf("the neighbor's watch failed: %v", err)
				return
			case silence > sizeOf(3*time.Second, 15*time.Second): // except at full size, attacks run in parallel and delay messages
				s.t.Errorf("the neighbor's watch was silent for %v", silence)
			}
		}
	})
	return func() { cancel(); watching.Wait() }
}

func TestAttackByRejectedOrdersDelaysNoOtherOrders(t *testing.T) {
	ledgerURL := newLedger(t)
	s := newSiege(t, siegeConfig{ledger: ledgerURL, before: func(catalog http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.Header.Get("X-Refuse") == "" && r.ContentLength > 100 && strings.HasSuffix(r.URL.Path, "/generations") {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"code":"INVALID_INPUT","message":"no","details":[{"field":"prompt"}]}`))
				return
			}
			catalog.ServeHTTP(w, r)
		})
	}})
	s.setOrderCalls()
	conn := s.dialFrom("127.0.0.1")
	labels := map[string]string{}
	for n := range 16 {
		labels[fmt.Sprintf("label%d%s", n, strings.Repeat("x", 50))] = strings.Repeat("y", 256)
	}
	n := atomic.Int64{}
	s.runAlongside(assault{
		workers: sizeOf(50, 10), least: sizeOf[int64](3000, 50), memory: 200 << 20,
		one: func(ctx context.Context, _ int) error {
			_, err := easelv1.NewGenerationServiceClient(conn).CreateGeneration(proctest.Bearing(ctx, s.attacker), &easelv1.CreateGenerationRequest{
				ModelId: "studio/haiku", IdempotencyKey: fmt.Sprint("refused-", n.Add(1)), InputsJson: fmt.Sprintf(`{"prompt":%q}`, strings.Repeat("no ", 50)), Labels: labels,
			})
			return err
		},
	})
	size := int64(0)
	for _, part := range []string{"", "-wal"} {
		if info, err := os.Stat(strings.TrimPrefix(ledgerURL, "sqlite:") + part); err == nil {
			size += info.Size()
		}
	}
	t.Logf("%d orders; the ledger has %d KB", n.Load(), size>>10)
	if size > 20<<20 {
		t.Errorf("the ledger has %d MB, want at most 20 MB", size>>20)
	}
}
