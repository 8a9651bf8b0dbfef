package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

const (
	heavyWorkers  = 100 // of the team that asks most, for each of another
	orderDeadline = time.Minute
	neighbourRate = 2 // orders a second, less than its share
	capOrders     = 200
)

// fairTeam is a team that always asks: each of its workers orders again as soon as it has an answer.
type fairTeam struct {
	name    string
	weight  float64
	workers int
}

// fairTeams are ten teams. Two of the small ones have twice the weight, and so has the one that asks most.
var fairTeams = func() []fairTeam {
	teams := []fairTeam{{"heavy", 2, heavyWorkers}, {"double-1", 2, 2}, {"double-2", 2, 2}}
	for i := range 7 {
		teams = append(teams, fairTeam{fmt.Sprintf("single-%d", i+1), 1, 1})
	}
	return teams
}()

// neighbour is a team besides: it asks for less than its share, and its orders are timed.
var neighbour = fairTeam{"neighbour", 2, 0}

// fairSite is replicas before one catalog, and the teams that order.
type fairSite struct {
	t        *testing.T
	catalog  *limitedCatalog
	replicas []easelv1.GenerationServiceClient
	rows     []fairRow
	alone    float64 // the neighbour's p99 in seconds

	mu      sync.Mutex
	counts  bool // whether what is served counts
	served  map[string]int
	reasons map[string]int
	times   []float64 // of the neighbour's orders, in seconds, without pauses
	whole   []float64 // with them
	late    int       // orders that were refused for a 429
}

func newFairSite(t *testing.T, replicas int) *fairSite {
	t.Helper()
	s := &fairSite{t: t, catalog: newLimitedCatalog(t), served: map[string]int{}, reasons: map[string]int{}}
	ledger := proctest.Database(t)
	for range replicas {
		s.replicas = append(s.replicas, s.start(s.catalog.key, ledger))
	}
	return s
}

// start starts a replica that holds an API key, and gives a client of it.
func (s *fairSite) start(key, ledger string) easelv1.GenerationServiceClient {
	dir := s.t.TempDir()
	keyFile, callers := filepath.Join(dir, "key"), filepath.Join(dir, "callers.yaml")
	for name, text := range map[string]string{keyFile: key, callers: fairCallers()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	p := proctest.Start(s.t, []string{
		"EASEL_UPSTREAM_URL=" + s.catalog.url, "EASEL_UPSTREAM_KEY_FILE=" + keyFile, "EASEL_CALLERS_FILE=" + callers, "EASEL_LEDGER_URL=" + ledger,
		"EASEL_GRPC_ADDR=127.0.0.1:0", "EASEL_HTTP_ADDR=127.0.0.1:0", "EASEL_ADMIN_ADDR=127.0.0.1:0",
	}, proctest.Easel(s.t), "serve")
	const listening = `"server":"grpc","addr":"([^"]+)"`
	addr, err := p.Await(0, listening, 30*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return easelv1.NewGenerationServiceClient(conn)
}

// fairCallers is the callers file. The token of a team is its name.
func fairCallers() string {
	teams, callers := "teams:\n", "callers:\n"
	for _, one := range append(slices.Clone(fairTeams), neighbour) {
		token := sha256.Sum256([]byte(one.name))
		teams += fmt.Sprintf("  %s: {weight: %v}\n", one.name, one.weight)
		callers += fmt.Sprintf("  - {name: %[1]s-caller, team: %[1]s, tokens: [\"sha256:%[2]s\"]}\n", one.name, hex.EncodeToString(token[:]))
	}
	return teams + callers
}

var fairOrders atomic.Int64

// order places an order of a team, and gives the reason of a refusal.
func (s *fairSite) order(ctx context.Context, team string) (reason string) {
	n := fairOrders.Add(1)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+team), orderDeadline)
	defer cancel()
	_, err := s.replicas[int(n)%len(s.replicas)].CreateGeneration(ctx, &easelv1.CreateGenerationRequest{
		ModelId: "studio/haiku", IdempotencyKey: "order-" + strconv.FormatInt(n, 10), InputsJson: `{"prompt":"the sea"}`,
	})
	if err == nil {
		return ""
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return err.Error()
}

// ask lets every team order until the context ends.
func (s *fairSite) ask(ctx context.Context, work *sync.WaitGroup) {
	for _, team := range fairTeams {
		for range team.workers {
			work.Go(func() {
				for ctx.Err() == nil {
					s.note(ctx, team.name, s.order(ctx, team.name))
				}
			})
		}
	}
}

// visit lets the neighbour order at its pace, and times its orders.
func (s *fairSite) visit(ctx context.Context, work *sync.WaitGroup) {
	work.Go(func() {
		next := time.NewTicker(time.Second / neighbourRate)
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
			}
			work.Go(func() {
				began := time.Now()
				reason := s.order(ctx, neighbour.name)
				s.note(ctx, neighbour.name, reason)
				s.time(ctx, began)
			})
		}
	})
}

// time notes how long an order of the neighbour took, and how long without the time in which the catalog took none.
func (s *fairSite) time(ctx context.Context, began time.Time) {
	now := time.Now()
	took, paused := now.Sub(began), s.catalog.paused(began, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts && ctx.Err() == nil {
		s.times, s.whole = append(s.times, (took-paused).Seconds()), append(s.whole, took.Seconds())
	}
}

// note counts the outcome of an order. What the end of the measurement has cut off does not count.
func (s *fairSite) note(ctx context.Context, team, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case reason != "":
		s.reasons[reason]++
		if reason == "UPSTREAM_RATE_LIMITED" {
			s.late++
		}
	case s.counts && team != neighbour.name:
		s.served[team]++
	}
}

// count says whether what is served from now on counts.
func (s *fairSite) count(counts bool) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = counts
	return time.Now()
}

// during runs a load for a warm-up and a time that counts, and gives when it counted.
func (s *fairSite) during(warmUp, counted time.Duration, loads ...func(context.Context, *sync.WaitGroup)) (from, to time.Time) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var work sync.WaitGroup
	for _, load := range loads {
		load(ctx, &work)
	}
	time.Sleep(warmUp)
	from = s.count(true)
	time.Sleep(counted)
	to = s.count(false)
	cancel()
	work.Wait()
	return from, to
}

// row adds a line to the table.
func (s *fairSite) row(r fairRow) { s.rows = append(s.rows, r) }

// measureNeighbour times the orders of the neighbour, who is alone.
func (s *fairSite) measureNeighbour(f fairness) {
	s.during(time.Second, f.alone, s.visit)
	s.alone, s.times, s.whole = quantile(s.times, 0.99), nil, nil
}

// measureShares lets all teams ask.
func (s *fairSite) measureShares(f fairness) {
	from, to := s.during(f.warmUp, f.shared, s.ask, s.visit)
	inPauses, pauses := s.catalog.mostInPauses(from, to, s.grace())
	use := 0.95
	if !*fairnessInFull {
		use -= 0.05 // one pause of a second may fall into its twenty seconds
	}
	s.row(fairRow{title: "orders refused for a 429", figure: float64(s.late)})
	s.row(fairRow{title: "Jain's index of orders served by weight", figure: jain(s.byWeight()), limit: 0.98, atLeast: true})
	s.row(fairRow{title: "use of what the catalog allows", figure: float64(s.catalog.taken(from, to)) / catalogRate / to.Sub(from).Seconds(), limit: use, atLeast: true})
	s.row(fairRow{title: fmt.Sprintf("a light team's p99 (%.0f ms; with pauses %.0f ms) by that alone (%.0f ms)", 1000*quantile(s.times, 0.99), 1000*quantile(s.whole, 0.99), 1000*s.alone), figure: quantile(s.times, 0.99) / s.alone, limit: 2, timed: true})
	s.row(fairRow{title: fmt.Sprintf("most requests in one of %d pauses", pauses), figure: float64(inPauses), limit: 1})
}

// grace is how long requests may be on their way that left before a pause was known: to every replica.
func (s *fairSite) grace() time.Duration {
	if len(s.replicas) > 1 {
		return 300 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// measurePause lets the catalog ask for one long pause while all teams ask.
func (s *fairSite) measurePause(f fairness) {
	s.late = 0
	fault := s.catalog.box.Inject(sandboxPause(f.pause))
	from, to := s.during(0, f.pause+5*time.Second, s.ask)
	if fault.Fired() != 1 {
		s.t.Errorf("the catalog has asked for %d pauses", fault.Fired())
	}
	inPauses, _ := s.catalog.mostInPauses(from, to, s.grace())
	s.row(fairRow{title: fmt.Sprintf("requests in a pause of %v", f.pause), figure: float64(inPauses), limit: 1})
	s.row(fairRow{title: "orders refused meanwhile", figure: float64(s.late)})
}

// measureCap orders what a daily cap forbids.
func (s *fairSite) measureCap() {
	key := s.catalog.capped(s.t)
	ledger := proctest.Database(s.t)
	capped := &fairSite{t: s.t, catalog: s.catalog, reasons: map[string]int{}}
	for range s.replicas {
		capped.replicas = append(capped.replicas, s.start(key, ledger))
	}
	if reason := capped.order(s.t.Context(), fairTeams[0].name); reason != "" {
		s.t.Fatalf("the order that reaches the daily cap was refused: %s", reason)
	}
	before := s.catalog.posts()
	reasons := map[string]int{capped.order(s.t.Context(), fairTeams[0].name): 1}
	time.Sleep(2 * time.Second) // until every replica knows
	var work sync.WaitGroup
	var mu sync.Mutex
	for _, team := range fairTeams {
		work.Go(func() {
			for range capOrders / len(fairTeams) {
				reason := capped.order(s.t.Context(), team.name)
				mu.Lock()
				reasons[reason]++
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if len(reasons) != 1 || reasons["API_KEY_DAILY_CAP"] == 0 {
		s.t.Errorf("past the daily cap orders were answered %v", reasons)
	}
	s.row(fairRow{title: fmt.Sprintf("POSTs of %d orders past the daily cap", capOrders), figure: float64(s.catalog.posts() - before), limit: 2})
}

// byWeight is what each team was served, by its weight.
func (s *fairSite) byWeight() (shares []float64) {
	for _, team := range fairTeams {
		shares = append(shares, float64(s.served[team.name])/team.weight)
	}
	return shares
}

func (s *fairSite) refusals() string {
	var texts []string
	for _, reason := range slices.Sorted(maps.Keys(s.reasons)) {
		texts = append(texts, fmt.Sprintf("%s %d", reason, s.reasons[reason]))
	}
	return strings.Join(texts, ", ")
}
