//go:build unix

package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/promises"
)

var (
	orders             = flag.Int("orders", 200, "Minimum number of orders to place.")
	kills              = flag.Int("kills", 28, "Minimum number of facades to kill. With a ledger, half of them, because each takes longer.")
	catalogKillsWanted = flag.Int("catalog-kills", 8, "Minimum number of sandboxes to kill. With a ledger, half of them.")
	cutsWanted         = flag.Int("cuts", 100, "Minimum number of connections between facade and sandbox to cut. With a ledger, a third of them.")
	databaseKillsFlag  = flag.Int("database-kills", 4, "Minimum number of times to kill PostgreSQL.")
	stallsWanted       = flag.Int("stalls", 2, "Minimum number of transactions to interrupt.")
	limit              = flag.Duration("limit", 3*time.Minute, "Maximum duration of a test.")
)

var (
	// Teams of a run, which share an API key. The last team's budget is too small for all its orders.
	teams = []string{"studio", "shop", "press", "blog"}
	// Teams that have a receiver. Events of the other teams are written but not sent.
	receivers = []string{"studio", "shop"}
)

const (
	ampleCents  = 50_000_000
	scarceCents = 15 // cents in the last team's budget for each 100 orders of all teams; less than the team's own orders cost
)

// world is the state of a run: its processes, callers and faults, and the record of events.
type world struct {
	t       *testing.T
	ctx     context.Context //nolint:containedctx // all connections are closed when this context is done
	storm   context.Context //nolint:containedctx // no further faults happen after this context is done
	calm    func()
	orders  float64 // number of orders to place
	goal    map[group]float64
	faults  []fault // faults that can happen in this run
	catalog *supervisor
	facades []*supervisor
	record  *promises.Record
	work    sync.WaitGroup
	callers []*caller
	tokens  map[string]string // bearer token of each team, keyed by team name

	// The following fields are set only in a run with a ledger.
	postgres   *proctest.Postgres
	ledger     string // URL that connects to the ledger directly, so that no faults are injected
	limits     map[string]ledger.Limits
	receiver   *receiver
	restarting sync.Mutex

	mu     sync.Mutex
	tally  map[string]int    // number of faults that have happened, keyed by fault name
	last   map[string]int    // number of the latest order, keyed by team
	placed map[string]string // generation IDs, keyed by team and idempotency key
	shown  map[string]string // ID of a generation that a team has received, keyed by team
	gaveUp int               // number of orders that were abandoned
	failed []error
}

func (w *world) isCalm() bool { return w.storm.Err() != nil }

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, err)
}

// calmIfDone stops the faults if enough orders have been placed and enough faults have happened.
func (w *world) calmIfDone() {
	w.mu.Lock()
	placed := len(w.placed)
	w.mu.Unlock()
	if float64(placed) >= w.orders && len(w.missingFaults()) == 0 {
		w.calm()
	}
}

// anyFacade returns a random running Easel server, or nil if none is running.
func (w *world) anyFacade() *proctest.Process {
	for _, i := range rand.Perm(len(w.facades)) {
		if p := w.facades[i].runningProcess(); p != nil {
			return p
		}
	}
	return nil
}

// supervisor starts a program and restarts it whenever it has been killed.
type supervisor struct {
	name    string
	start   func() (*proctest.Process, error)
	starts  atomic.Int64
	current atomic.Pointer[proctest.Process]
}

// runningProcess returns the running process, or nil if none is running.
func (k *supervisor) runningProcess() *proctest.Process { return k.current.Load() }

// supervise restarts the process until ctx is done. It returns an error if the process exits without having been killed.
func (k *supervisor) supervise(ctx context.Context) error {
	for ctx.Err() == nil {
		p, err := k.start()
		if err != nil {
			return err
		}
		k.starts.Add(1)
		k.current.Store(p)
		select {
		case <-p.Exited():
			k.current.Store(nil)
			if !p.Killed() && ctx.Err() == nil {
				return fmt.Errorf("%s exited unexpectedly\n%s", k.name, tail(p))
			}
		case <-ctx.Done():
			k.current.Store(nil)
			p.Kill()
		}
	}
	return nil
}

// newWorld prepares a run with the given number of Easel servers, without starting processes. The callers must place at
// least orderCount orders. In each group of faults, at least as many faults must happen as goal contains for the group.
func newWorld(ctx context.Context, t *testing.T, facades, orderCount int, goal map[group]float64) *world {
	t.Helper()
	proctest.Easel(t)
	w := &world{
		t: t, ctx: ctx, orders: float64(orderCount), goal: goal, record: &promises.Record{Begin: time.Now()},
		tokens: map[string]string{}, tally: map[string]int{}, last: map[string]int{}, placed: map[string]string{}, shown: map[string]string{},
	}
	w.storm, w.calm = context.WithCancel(ctx)
	goal[callerCuts] = 1
	for _, f := range faults {
		if _, applies := goal[f.group]; applies && (goal[databaseKills] > 0 || f.at != committing && f.at != committed) {
			w.faults = append(w.faults, f)
		}
	}
	file := filepath.Join(t.TempDir(), "catalog.db")
	w.catalog = &supervisor{name: "the catalog", start: func() (*proctest.Process, error) {
		return proctest.TryLaunch(t, proctest.Easel(t), nil, append([]string{"sandbox"}, storeFlags(file, "--speed", "50", "--failure-rate", "0.2")...)...)
	}}
	for range facades {
		w.facades = append(w.facades, &supervisor{name: "a facade"})
	}
	return w
}

// run starts all processes and the given number of callers, and waits until enough faults have happened. It then calls
// settleRun, which returns the record of the run, and checks this record with package promises.
func (w *world) run(callers int, settleRun func() (promises.Run, error)) {
	t, began := w.t, time.Now()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var running errgroup.Group // supervises the processes; an unexpected exit cancels the run
	for _, k := range append(w.facades, w.catalog) {
		running.Go(func() error {
			defer cancel()
			return k.supervise(ctx)
		})
	}
	context.AfterFunc(ctx, w.calm)
	w.connectCallers(callers)
	run, err := w.runCallers(ctx, settleRun)
	cancel()
	if err := errors.Join(append(w.failed, err, running.Wait())...); err != nil {
		t.Error(err)
	}
	if w.receiver != nil {
		run.Arrivals = w.receiver.arrivals()
	}
	t.Logf("%d orders placed and %d abandoned in %v; faults: %v", len(w.placed), w.gaveUp, time.Since(began).Round(time.Second), w.tally)
	if missing := w.missingFaults(); len(missing) > 0 {
		t.Errorf("these faults never happened: %q", missing)
	}
	for i, b := range promises.Check(promises.All, &run) {
		if i < 20 {
			t.Errorf("%v\n%s", b, w.orderEvents(b))
		}
	}
}

// runCallers runs the callers. In a run with a ledger, runCallers then waits until every order has an outcome. Finally,
// it calls settleRun and returns the record of the run.
func (w *world) runCallers(ctx context.Context, settleRun func() (promises.Run, error)) (run promises.Run, err error) {
	var ordering, looking errgroup.Group
	for i, c := range w.callers {
		ordering.Go(func() error { return c.placeOrders(ctx, w.callers[(i+len(w.tokens))%len(w.callers)]) })
	}
	for n := range w.tokens {
		if len(w.tokens) > 1 {
			looking.Go(func() error { return w.callers[slices.Index(teams, n)].checkIsolation(ctx) })
		}
	}
	if err := errors.Join(ordering.Wait(), looking.Wait(), ctx.Err()); err != nil {
		return run, err
	}
	var asking errgroup.Group
	if w.postgres != nil {
		took, err := w.awaitNone("unknown", "state = 1", knownWithin)
		w.t.Logf("every order has an outcome %v after the last fault", took.Round(100*time.Millisecond))
		if err != nil {
			return run, err
		}
	}
	for _, c := range w.callers {
		asking.Go(func() error { return c.repeatOrders(ctx) })
	}
	if err := asking.Wait(); err != nil {
		return run, err
	}
	return settleRun()
}

// orderEvents returns the recorded events of the order for which b reports a broken promise.
func (w *world) orderEvents(b promises.Broken) string {
	var text strings.Builder
	key := ""
	for _, e := range w.record.Sorted() {
		if e.Kind == promises.Placed && (e.Generation == b.Generation || e.Text == b.Generation) {
			key = e.Text
		}
	}
	for _, e := range w.record.Sorted() {
		if key != "" && (e.Text == key || e.Order == key) || b.Generation != "" && (e.Generation == b.Generation || e.Text == b.Generation || e.Order == b.Generation) {
			fmt.Fprintln(&text, e)
		}
	}
	return text.String()
}

// Each order must be charged only once, although the test cuts connections, and kills processes at every step of an
// order. Sometimes two callers concurrently send the same key to two Easel servers.
func TestOrderIsChargedOnceDespiteKillsAndConnectionCuts(t *testing.T) {
	t.Parallel() // runs in parallel with the other tests, which mostly wait
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	w := newWorld(ctx, t, 2, *orders, map[group]float64{
		facadeKills: float64(*kills), catalogKills: float64(*catalogKillsWanted), cuts: float64(*cutsWanted),
	})
	w.tokens[teams[0]] = key
	for _, owner := range w.facades {
		upstream := w.startRelay(t, net.ListenConfig{Control: narrowBuffers}, func(near *net.TCPConn) { w.forwardToCatalog(near, []*supervisor{owner}) })
		owner.start = func() (*proctest.Process, error) {
			return proctest.TryLaunch(t, proctest.Easel(t), before(upstream), "serve")
		}
	}
	w.run(32, func() (run promises.Run, err error) {
		account, err := w.settledAccount()
		run = promises.Run{Begin: w.record.Begin, End: w.record.Since(), Events: w.record.Sorted()}
		run.AddAccount(teams[0], account)
		return run, err
	})
	cancel()
	w.work.Wait()
}

// TestTheLedgerEqualsCatalogAccountsDespiteProcessKills runs three Easel servers, and kills any process, including
// PostgreSQL, at any point. Callers repeat or abandon their orders.
func TestTheLedgerEqualsCatalogAccountsDespiteProcessKills(t *testing.T) {
	t.Parallel() // runs in parallel with the other tests, which mostly wait
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can the test find the facade that has a connection")
	}
	ctx, cancel := context.WithTimeout(t.Context(), *limit+2*knownWithin+settledWithin)
	defer cancel()
	postgres := proctest.StartPostgres(t)
	w := newWorld(ctx, t, 3, *orders, map[group]float64{
		facadeKills: float64(*kills / 2), catalogKills: float64(*catalogKillsWanted / 2), cuts: float64(*cutsWanted / 3),
		databaseKills: float64(*databaseKillsFlag), stalls: float64(*stallsWanted), ledgerCuts: float64(*orders) / 20, receiverFaults: 0,
	})
	w.postgres, w.ledger = postgres, postgres.Database(t)
	w.limits = map[string]ledger.Limits{
		"shop": {MonthlyCents: new(int64(ampleCents))}, "blog": {MonthlyCents: new(int64(*orders * scarceCents / 100))},
	}
	settings := w.settings()
	upstream := w.startRelay(t, net.ListenConfig{Control: narrowBuffers}, func(near *net.TCPConn) { w.forwardToCatalog(near, w.facades) })
	for _, owner := range w.facades {
		database := w.startRelay(t, net.ListenConfig{}, func(near *net.TCPConn) { w.forwardToDatabase(near, owner) })
		url := strings.Replace(w.ledger, postgres.Address(), database, 1)
		owner.start = func() (*proctest.Process, error) {
			return w.launchWithLedger(settings.With(before(upstream)).With(proctest.Settings{"EASEL_LEDGER_URL": url}))
		}
	}
	w.run(48, w.settleOrders)
	for _, owner := range w.facades {
		if owner.starts.Load() < 2 {
			t.Error("a facade was never killed")
		}
	}
	if w.gaveUp == 0 || !slices.ContainsFunc(w.record.Sorted(), func(e promises.Event) bool { return e.Kind == promises.Rejected }) {
		t.Error("no budget was exhausted, or no order was abandoned")
	}
	cancel()
	w.work.Wait()
}

// launchWithLedger starts an Easel server. While PostgreSQL is unavailable, it restarts the server up to 1,000 times,
// as a process manager would.
func (w *world) launchWithLedger(settings proctest.Settings) (*proctest.Process, error) {
	for range 1000 {
		p, err := proctest.TryLaunch(w.t, proctest.Easel(w.t), settings, "serve")
		if err == nil || w.ctx.Err() != nil || !strings.Contains(err.Error(), "EASEL_LEDGER_URL") || strings.Contains(err.Error(), "belongs to the catalog") {
			return p, err
		}
		pauseFor(w.ctx, 200*time.Millisecond)
	}
	return nil, errors.New("no facade reached the ledger in 1000 starts")
}

// settings returns the environment of every Easel server that has a ledger. It starts the receiver of events, creates
// the teams' tokens, and writes the files that the environment refers to.
func (w *world) settings() proctest.Settings {
	w.receiver = startReceiver(w)
	secret := proctest.File(w.t, eventSecret)
	budgets, list := map[string]map[string]any{}, []any{}
	for _, team := range teams {
		w.tokens[team] = auth.NewToken()
		list = append(list, map[string]any{"name": team + "-service", "team": team, "tokens": []string{auth.Hash(w.tokens[team])}})
		budgets[team] = map[string]any{}
		if limit := w.limits[team].MonthlyCents; limit != nil {
			budgets[team]["budget"] = map[string]any{"monthly_cents": *limit}
		}
		if slices.Contains(receivers, team) {
			budgets[team]["events"] = map[string]any{"url": w.receiver.url + "/" + team, "secret_file": secret}
		}
	}
	text, err := json.Marshal(map[string]any{"teams": budgets, "callers": list}) // JSON is valid YAML
	if err != nil {
		w.t.Fatal(err)
	}
	return proctest.Settings{"EASEL_UPSTREAM_KEY_FILE": proctest.File(w.t, key), "EASEL_CALLERS_FILE": proctest.File(w.t, string(text))}
}

// openLedger connects to the ledger directly, without fault injection.
func (w *world) openLedger() (*sql.DB, error) { return sql.Open("pgx", w.ledger) }
