//go:build unix

package torture

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// goal is the amount of work of a run.
type goal struct {
	orders, kills, catalogKills, cuts int
	cutShare                          float64 // share of all exchanges with the catalog
}

var (
	orders       = flag.Int("orders", 200, "orders to place, at least")
	kills        = flag.Int("kills", 28, "facades to kill, at least")
	catalogKills = flag.Int("catalog-kills", 8, "sandboxes to kill, at least")
	cutsWanted   = flag.Int("cuts", 100, "connections between facade and sandbox to cut, at least")
	limit        = flag.Duration("limit", 3*time.Minute, "how long it may take")
)

const (
	callerCount = 32
	facades     = 2
)

// world has all parts of a run.
type world struct {
	ctx      context.Context //nolint:containedctx // it ends every connection
	storm    context.Context //nolint:containedctx // it ends when nothing more is to go wrong
	calm     func()
	goal     goal
	catalog  *supervisor
	facades  []*supervisor
	tally    counters
	promises outcomes
	work     sync.WaitGroup

	mu   sync.Mutex
	last int // order
}

// points returns all points where a process dies.
func (w *world) points() []point { return slices.Concat(w.facades[0].points, w.catalog.points) }

func (w *world) isCalm() bool { return w.storm.Err() != nil }

// next returns the number of the next order, and true until everything has happened often enough.
// From then on, no more faults happen.
func (w *world) next() (int, bool) {
	w.calmIfDone(w.promises.count())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCalm() || w.ctx.Err() != nil {
		return 0, false
	}
	w.last++
	return w.last, true
}

// calmIfDone stops all faults once everything has happened often enough.
func (w *world) calmIfDone(orders int) {
	kills, catalogKills, severed := w.tally.totals()
	if orders >= w.goal.orders && kills >= w.goal.kills && catalogKills >= w.goal.catalogKills && severed >= w.goal.cuts && len(w.tally.missing(w.points())) == 0 {
		w.calm()
	}
}

// anyFacade returns a random running facade, or nil.
func (w *world) anyFacade() *process {
	for _, i := range rand.Perm(len(w.facades)) {
		if p := w.facades[i].now(); p != nil {
			return p
		}
	}
	return nil
}

// listen opens a port of a wire or line.
func (w *world) listen(t *testing.T, config net.ListenConfig) net.Listener {
	t.Helper()
	listener, err := config.Listen(w.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(w.ctx, func() { listener.Close() })
	return listener
}

// narrow sets short segments and a small buffer, so that the kernel accepts few bytes at a time,
// and a large order takes a while to write.
func narrow(_, _ string, raw syscall.RawConn) (err error) {
	failed := raw.Control(func(fd uintptr) {
		if err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536); err == nil {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// facadePoints are the points where a facade dies without a ledger.
var facadePoints = []point{beforeOrder, amidOrder, afterCommit, amidAnswer, afterAnswer, beforeHearing, afterHearing}

// build creates the world; nothing runs yet. start starts a facade, and points are the points where
// it dies.
func build(ctx context.Context, t *testing.T, g goal, points []point, start func(ctx context.Context, owner *supervisor) (*process, error)) *world {
	t.Helper()
	w := &world{ctx: ctx, goal: g, promises: outcomes{ids: map[string]string{}}}
	w.storm, w.calm = context.WithCancel(ctx)
	file := filepath.Join(t.TempDir(), "catalog.db")
	w.catalog = &supervisor{
		world: w, name: "the catalog", points: []point{catalogBefore, catalogAmid, catalogTaking, catalogAfter}, skip: 4 * g.orders / g.catalogKills,
		start: func(ctx context.Context) (*process, error) {
			return startCatalog(ctx, file, "--speed", "50", "--failure-rate", "0.2")
		},
	}
	for n := range facades {
		owner := &supervisor{world: w, name: "a facade", points: rotated(points, n*len(points)/facades), skip: 2 * g.orders / g.kills}
		owner.start = func(ctx context.Context) (*process, error) { return start(ctx, owner) }
		w.facades = append(w.facades, owner)
	}
	return w
}

// wire starts a proxy between some of the facades and the catalog, and returns the address of the proxy.
func (w *world) wire(t *testing.T, owners ...*supervisor) (addr string) {
	t.Helper()
	link := &wire{world: w, owners: owners, listener: w.listen(t, net.ListenConfig{Control: narrow})}
	w.work.Go(link.serve)
	return link.listener.Addr().String()
}

// supervise runs everything until ctx is done.
func (w *world) supervise(ctx context.Context, running *errgroup.Group) {
	for _, k := range append(w.facades, w.catalog) {
		running.Go(func() error { return k.supervise(ctx) })
	}
}

// rotated returns the points, starting with the given index.
func rotated(points []point, first int) []point { return slices.Concat(points[first:], points[:first]) }

// call places orders until all faults have happened, and then repeats every order. By then the
// facades that respond no longer know it.
func (w *world) call(t *testing.T) error {
	t.Helper()
	var all []*caller
	for n := range callerCount {
		l := &callerProxy{world: w, listener: w.listen(t, net.ListenConfig{}), rest: n%4 == 3}
		w.work.Go(l.serve)
		c, conn, err := connect(w, l, key)
		if err != nil {
			return err
		}
		defer conn.Close()
		all = append(all, c)
	}
	var ordering, asking errgroup.Group
	for i, c := range all {
		ordering.Go(func() error { return c.work(w.ctx, all[(i+1)%callerCount]) })
	}
	if err := ordering.Wait(); err != nil {
		return err
	}
	for i, c := range all {
		asking.Go(func() error {
			for n := 1 + i; n <= w.last; n += callerCount {
				if err := c.place(w.ctx, orderOf(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return asking.Wait()
}

// report periodically logs the progress.
func (w *world) report(t *testing.T, began time.Time, orders func() int) {
	t.Helper()
	for {
		select {
		case <-time.After(5 * time.Second):
			kills, catalogKills, severed := w.tally.totals()
			t.Logf("%5.0f s: %d orders, %d facades killed, %d sandboxes killed, %d cuts",
				time.Since(began).Seconds(), orders(), kills, catalogKills, severed)
		case <-w.storm.Done():
			return
		}
	}
}

// close compares the final accounts.
func (w *world) close(t *testing.T, began time.Time) {
	t.Helper()
	addr := w.catalog.now().found[0]
	a, unsettled := settledAudit(w.ctx, addr)
	pictures, broken := readPictures(w.ctx, addr, a)
	t.Log(w.tally.table(w.points(), a, pictures, time.Since(began)))
	if err := errors.Join(unsettled, broken, compareOutcomes(w.promises.ids, a)); err != nil {
		t.Error(err)
	}
	if missing := w.tally.missing(w.points()); len(missing) > 0 || pictures == 0 {
		t.Errorf("never happened: %q; %d files", missing, pictures)
	}
}

// K1, K2, K3, K4, K5, K6, S1: every crash point of an order, while the network is cut all the time,
// and sometimes one key at two facades at once (K8, S4).
func TestAnOrderIsChargedOnceWhateverIsKilledAndCut(t *testing.T) {
	t.Parallel() // with tests that mostly wait
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	running, ctx := errgroup.WithContext(ctx) // an unexpected exit of a process ends the run
	wires := map[*supervisor]string{}
	w := build(ctx, t, goal{orders: *orders, kills: *kills, catalogKills: *catalogKills, cuts: *cutsWanted, cutShare: 0.2}, facadePoints,
		func(ctx context.Context, owner *supervisor) (*process, error) { return startFacade(ctx, wires[owner]) })
	for _, owner := range w.facades {
		wires[owner] = w.wire(t, owner)
	}
	w.supervise(ctx, running)
	w.work.Go(func() { w.report(t, began, w.promises.count) })
	if err := w.call(t); err != nil {
		t.Error(err)
	} else {
		w.close(t, began)
	}
	cancel()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	w.work.Wait()
}
