//go:build unix

package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

// With a ledger each kill takes longer, because the ledger outlives the process.
var (
	ledgerOrders       = flag.Int("ledger-orders", 200, "orders to place with a ledger, at least")
	ledgerKills        = flag.Int("ledger-kills", 14, "facades to kill with a ledger, at least")
	ledgerCatalogKills = flag.Int("ledger-catalog-kills", 4, "sandboxes to kill with a ledger, at least")
	ledgerCuts         = flag.Int("ledger-cuts", 30, "connections between facade and sandbox to cut with a ledger, at least")
	databaseKills      = flag.Int("database-kills", 4, "how often to kill PostgreSQL, at least")
	stalls             = flag.Int("stalls", 2, "transactions to leave in the middle, at least")
)

// knownWithin is the time in which every order must have an outcome after the catalog is available
// again. settledWithin is the time in which an order is settled after it was read. Thousands of
// orders may wait on a busy machine.
const knownWithin, settledWithin = 3 * time.Minute, time.Minute

// teams are the teams that share the API key. The budget of the last is too small for all its
// orders.
var teams = []string{"studio", "shop", "press", "blog"}

const (
	ampleCents  = 50_000_000
	scarceCents = 15 // for each 100 orders of the run, of which its are 25 and more, at a cent and more
)

// ledgerWorld is a world with a ledger: callers of several teams, behind one API key.
type ledgerWorld struct {
	*world
	books    *books
	ledger   string // URL that bypasses the faults of connections
	limits   map[string]int64
	tokens   map[string]string // tokens by team
	memory   *memory
	receiver *receiver // receiver of events
	members  []*member
	clients  map[string]easelv1.GenerationServiceClient // clients by team
}

// buildLedger puts it together; nothing runs yet but PostgreSQL.
func buildLedger(ctx context.Context, t *testing.T, g goal) *ledgerWorld {
	t.Helper()
	postgres := proctest.StartPostgres(t)
	l := &ledgerWorld{
		books:  &books{t: t, server: postgres, kills: *databaseKills, stalls: *stalls, stall: silentBefore, skip: max(20, 2*g.orders / *databaseKills)},
		ledger: postgres.Database(t), tokens: map[string]string{}, memory: newMemory(),
		limits: map[string]int64{"shop": ampleCents, "blog": int64(g.orders) * scarceCents / 100},
	}
	settings := l.settings(t)
	wires, upstream := map[*supervisor]*bookWire{}, ""
	l.world = build(ctx, t, g, append(facadePoints, beforeWriting, amidWriting, afterWriting),
		func(ctx context.Context, owner *supervisor) (*process, error) {
			return l.books.startFacade(ctx, upstream, append(settings, "EASEL_LEDGER_URL="+wires[owner].url(l.ledger))...)
		})
	l.books.world = l.world
	upstream = l.wire(t, l.facades...) // a ledger belongs to one URL of a catalog
	for _, owner := range l.facades {
		wires[owner] = &bookWire{books: l.books, owner: owner, listener: l.listen(t, net.ListenConfig{})}
		l.work.Go(wires[owner].serve)
	}
	return l
}

// settings returns the settings of every facade, and writes the files that they name.
func (l *ledgerWorld) settings(t *testing.T) []string {
	t.Helper()
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	told, secret := startReceiver(t, l), write("secret", eventSecret)
	file := map[string]any{}
	budgets, list := map[string]any{}, []any{}
	for _, team := range teams {
		l.tokens[team] = auth.NewToken()
		list = append(list, map[string]any{"name": team + "-service", "team": team, "tokens": []string{auth.Hash(l.tokens[team])}})
		budgets[team] = map[string]any{}
		if limit := l.limits[team]; limit > 0 {
			budgets[team] = map[string]any{"budget": map[string]any{"monthly_cents": limit}}
		}
		if slices.Contains(toldTeams, team) {
			budgets[team].(map[string]any)["events"] = map[string]any{"url": told, "secret_file": secret}
		}
	}
	file["teams"], file["callers"] = budgets, list
	text, err := json.Marshal(file) // JSON is also YAML
	if err != nil {
		t.Fatal(err)
	}
	return []string{"EASEL_UPSTREAM_KEY_FILE=" + write("key", key), "EASEL_CALLERS_FILE=" + write("callers.yaml", string(text))}
}

// url returns the URL of a ledger through the wire.
func (w *bookWire) url(ledger string) string {
	return strings.Replace(ledger, w.books.server.Address(), w.listener.Addr().String(), 1)
}

// startFacade starts a facade, and repeats it if PostgreSQL was unavailable, as a process manager
// does.
func (b *books) startFacade(ctx context.Context, upstream string, env ...string) (*process, error) {
	for {
		p, err := startFacade(ctx, upstream, env...)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "EASEL_LEDGER_URL") || strings.Contains(err.Error(), "belongs to the catalog") || !b.wasAway() {
			return p, err
		}
		pauseFor(ctx, 200*time.Millisecond)
	}
}

// wasAway counts a failed start of a facade, and reports whether there were fewer than 1000.
func (b *books) wasAway() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused++
	return b.refused < 1000
}

// calmIfDone stops all faults once everything has happened often enough.
func (l *ledgerWorld) calmIfDone() {
	if l.books.killed() >= l.books.kills && l.books.stalled() >= l.books.stalls {
		l.world.calmIfDone(l.memory.count())
	}
}

// TestTheLedgerEqualsTheCatalogsBooksWhateverIsKilled runs real processes and a real PostgreSQL, and kills any of them at
// any point. Callers repeat their idempotency key or give up. K1, K3, K4, S1, T3, T4
func TestTheLedgerEqualsTheCatalogsBooksWhateverIsKilled(t *testing.T) {
	t.Parallel() // with tests that mostly wait
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells which of two facades has a connection")
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), *limit+2*knownWithin+settledWithin)
	defer cancel()
	running, ctx := errgroup.WithContext(ctx)
	l := buildLedger(ctx, t, goal{orders: *ledgerOrders, kills: *ledgerKills, catalogKills: *ledgerCatalogKills, cuts: *ledgerCuts, cutShare: 0.1})
	l.supervise(ctx, running)
	l.work.Go(func() { l.report(t, began, l.memory.count) })
	if err := l.run(t); err != nil {
		t.Error(err)
	} else if err := l.close(t, began); err != nil {
		t.Error(err)
	}
	cancel()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	l.work.Wait()
}

// run runs the teams until all faults have happened, waits until every order has an outcome, and
// repeats all orders.
func (l *ledgerWorld) run(t *testing.T) error {
	t.Helper()
	if err := l.connect(t); err != nil {
		return err
	}
	var ordering, looking, coming errgroup.Group
	for i, m := range l.members {
		ordering.Go(func() error { return m.work(l.ctx, l.members[(i+len(teams))%len(l.members)]) })
	}
	for i, team := range teams {
		looking.Go(func() error { return l.look(team, teams[(i+1)%len(teams)]) })
	}
	if err := ordering.Wait(); err != nil {
		return err
	}
	took, err := l.known()
	t.Logf("every order has an outcome %v after the last fault", took.Round(100*time.Millisecond))
	if err != nil {
		return err
	}
	if err := looking.Wait(); err != nil {
		return err
	}
	for _, m := range l.members {
		coming.Go(func() error { return m.comeBack(l.ctx) })
	}
	return coming.Wait()
}

// connect connects the callers.
func (l *ledgerWorld) connect(t *testing.T) error {
	t.Helper()
	for n := range callersOfLedger {
		team := teams[n%len(teams)]
		line := &callerProxy{world: l.world, listener: l.listen(t, net.ListenConfig{}), rest: n/len(teams)%4 == 3}
		l.work.Go(line.serve)
		c, conn, err := connect(l.world, line, l.tokens[team])
		if err != nil {
			return err
		}
		t.Cleanup(func() { conn.Close() })
		l.members = append(l.members, &member{caller: c, world: l, team: team})
	}
	l.clients = map[string]easelv1.GenerationServiceClient{}
	for _, team := range teams {
		line := &callerProxy{world: l.world, listener: l.listen(t, net.ListenConfig{})}
		l.work.Go(line.serve)
		conn, err := dial(line)
		if err != nil {
			return err
		}
		t.Cleanup(func() { conn.Close() })
		l.clients[team] = easelv1.NewGenerationServiceClient(conn)
	}
	return nil
}

// known waits until no order is unknown, without repeats by callers.
func (l *ledgerWorld) known() (took time.Duration, err error) {
	db, err := l.open()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return l.none(db, "unknown", "state = 1", knownWithin)
}

// none waits until no order meets a condition.
func (l *ledgerWorld) none(db *sql.DB, what, condition string, within time.Duration) (took time.Duration, err error) {
	for calm := time.Now(); ; pauseFor(l.ctx, 100*time.Millisecond) {
		left := 0
		if err := db.QueryRowContext(l.ctx, "SELECT COUNT(*) FROM orders WHERE "+condition).Scan(&left); err != nil {
			return 0, err
		}
		took = time.Since(calm)
		switch {
		case left == 0:
			return took, nil
		case took > within:
			return took, fmt.Errorf("%d orders are still %s after %v", left, what, took)
		}
	}
}
