//go:build unix

package torture

import (
	"flag"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

var (
	watchesWanted = flag.Int("watches", 300, "watches of the tests of replicas")
	measured      = flag.Duration("measured", 10*time.Second, "how long the requests of replicas over a database are counted")
)

// renewal is longer than the time between two renewals of a replica's row.
const renewal = 12 * time.Second

// database is a site on loopback, where replicas share one PostgreSQL. Each reaches it through a tunnel.
type database struct {
	postgres *proctest.Postgres
	url      *url.URL
	each     map[int]*tunnel
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	postgres := proctest.StartPostgres(t)
	at, err := url.Parse(postgres.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	return &database{postgres, at, map[int]*tunnel{}}
}

// launch starts the i-th replica.
func (d *database) launch(t *testing.T, i int, upstream string, env ...string) (*process, error) {
	if d.each[i] == nil {
		d.each[i] = dig(t, d.url.Host)
	}
	through := *d.url
	through.Host = d.each[i].listener.Addr().String()
	return startFacade(t.Context(), upstream, append(env, "EASEL_LEDGER_URL="+through.String())...)
}

// sever disconnects a replica from the database: all bytes are lost.
func (d *database) sever(i int) { d.each[i].darken() }
func (d *database) mend(i int)  { d.each[i].light() }

// startSharing starts replicas over a database with generations and watches, and waits until they are polled.
func startSharing(t *testing.T, replicas int) (f *fleet, d *database) {
	t.Helper()
	d = newDatabase(t)
	f = startFleet(t, d, replicas, max(min(*watchesWanted/5, 1000), 1))
	f.watch(*watchesWanted)
	before := time.Now()
	eventually(t, "polls", func() bool { return f.meter.since(before) > 2 })
	return f, d
}

// changed waits until every watch has a second state.
func (f *fleet) changed(when string) {
	f.t.Helper()
	f.meter.set("running", f.ids...)
	eventually(f.t, "the change "+when, func() bool { return f.count(func(w *watcher) bool { return len(w.states) > 1 }) == len(f.watchers) })
}

// requestsIn counts the requests to the catalog in the given time.
func (f *fleet) requestsIn(d time.Duration) (n int) {
	f.t.Helper()
	began := time.Now()
	pauseFor(f.t.Context(), d)
	return f.meter.since(began)
}

// divide waits until each replica has its part of the rate, and checks the requests that follow.
func (f *fleet) divide() {
	f.t.Helper()
	pauseFor(f.t.Context(), renewal)
	n, most := f.requestsIn(*measured), fleetRate*(measured.Seconds()+1)
	f.t.Logf("%d watches through %d replicas: %d requests in %v", *watchesWanted, len(f.replicas), n, *measured)
	if float64(n) > most {
		f.t.Errorf("%d requests, where the rate allows %.0f", n, most)
	}
}

func TestReplicasDivideTheRateOfPolls(t *testing.T) {
	f, _ := startSharing(t, 4)
	f.divide()
	f.end()
}

func TestReplicasBehindAPoolerInTransactionModeDivideTheRate(t *testing.T) {
	f, d := startSharing(t, 4) // the first makes the schema, for which it needs a session of its own
	pooled, err := url.Parse(d.postgres.Pool(t, strings.TrimPrefix(d.url.Path, "/")))
	if err != nil {
		t.Fatal(err)
	}
	d.url, d.each = pooled, map[int]*tunnel{}
	f.replaceAll()
	f.divide()
	f.end()
}

func TestReplicasThatAreKilledLoseNoWatch(t *testing.T) {
	f, _ := startSharing(t, 3)
	for i := range f.replicas {
		f.kill(i)
		f.start(i)
	}
	f.changed("after all were killed")
	f.end()
}

func TestReplicaThatIsCutFromTheDatabaseGoesOn(t *testing.T) {
	f, d := startSharing(t, 3)
	d.sever(0)
	f.changed("on both sides")
	d.mend(0)
	f.end()
}

func TestReplicasWhoseDatabaseHangsGoOn(t *testing.T) {
	f, d := startSharing(t, 3)
	for i := range f.replicas {
		d.sever(i)
	}
	f.changed("while the database hangs")
	for i := range f.replicas {
		d.mend(i)
	}
	f.end()
}

func TestReplicasWhoseDatabaseIsKilledGoOn(t *testing.T) {
	f, d := startSharing(t, 3)
	d.postgres.Kill()
	f.changed("without a database")
	f.end()
}

func TestReplicasOverADatabaseOfWhichOneIsStoppedGoOnAndItTellsNothingOldLater(t *testing.T) {
	const stopped = 1
	f, _ := startSharing(t, 3)
	f.meter.set("running", f.ids...)
	f.signal(f.replicas[stopped], syscall.SIGSTOP)
	half := map[string]bool{}
	for _, id := range f.ids[:len(f.ids)/2] {
		half[id] = true
		f.meter.set("succeeded", id)
	}
	waiting := func(w *watcher) bool { return half[w.id] && !w.over }
	eventually(t, "the ends at the replicas that run", func() bool { return f.count(func(w *watcher) bool { return waiting(w) && w.on != stopped }) == 0 })
	if f.count(waiting) == 0 {
		t.Error("nobody waits at the replica that is stopped")
	}
	f.signal(f.replicas[stopped], syscall.SIGCONT)
	eventually(t, "the ends at the one that was stopped", func() bool { return f.count(waiting) == 0 })
	f.end()
}

func TestReplicasOverADatabaseThatAreReplacedOneByOneLoseNothing(t *testing.T) {
	f, _ := startSharing(t, 3)
	f.replaceAll()
	f.changed("at every watch")
	f.end()
	if breaks := f.count(func(w *watcher) bool { return w.breaks > 1 }); breaks == 0 {
		t.Error("no watch was moved: nothing was replaced")
	}
}

// replaceAll replaces one replica after the other.
func (f *fleet) replaceAll() {
	f.t.Helper()
	began := time.Now()
	for i, old := range f.replicas {
		f.signal(old, syscall.SIGTERM)
		<-old.gone
		f.start(i)
	}
	f.t.Logf("%d requests in %v of replacing them, where %d generations are watched", f.meter.since(began), time.Since(began), len(f.ids))
}
