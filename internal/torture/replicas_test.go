//go:build unix

package torture

import (
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

var (
	watchesWanted = flag.Int("watches", 300, "watches of the tests of replicas")

	measured  = flag.Duration("measured", 10*time.Second, "how long the requests of replicas over a database are counted")
	everySize = flag.Bool("every-size", false, "count those of 2, 4 and 8 replicas, and not of 4 alone, and stop one for a minute")
)

const (
	goneFor   = 1500 * time.Millisecond // the next poll comes within it after a replica was killed
	knownSoon = 20 * time.Millisecond   // the usual delay of a change between two replicas on a quiet machine
	knownLate = 100 * time.Millisecond  // and that of one in a hundred
	hops      = 25                      // so many of a change between two bare connections, where other work makes all of it slow
	settling  = 3 * time.Second         // after a change, until polls are those of a quiet hour
)

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

// sever cuts a replica off: what is sent vanishes.
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

// requestsIn counts the requests of so many replicas while nothing is wrong.
func requestsIn(t *testing.T, replicas int, d time.Duration) (n int) {
	t.Helper()
	f, _ := startSharing(t, replicas)
	n = f.requestsIn(d)
	f.end()
	return n
}

func (f *fleet) requestsIn(d time.Duration) (n int) {
	f.t.Helper()
	f.changed("of all")
	pauseFor(f.t.Context(), settling)
	began := time.Now()
	pauseFor(f.t.Context(), d)
	return f.meter.since(began)
}

func TestReplicasOverADatabaseCostTheRequestsOfOne(t *testing.T) {
	sizes := []int{4}
	if *everySize {
		sizes = []int{2, 4, 8}
	}
	one := requestsIn(t, 1, *measured)
	for _, size := range sizes {
		n := requestsIn(t, size, *measured)
		t.Logf("%d watches through %d replicas: %d requests in %v, and %d through one: %.4f", *watchesWanted, size, n, *measured, one, float64(n)/float64(one))
		if float64(n) > 1.005*float64(one)+1 { // one may be cut off at either end
			t.Errorf("%d replicas make %d requests, and one %d", size, n, one)
		}
	}
}

func TestReplicasOverADatabaseKnowOfAChangeWithinMilliseconds(t *testing.T) {
	f, d := startSharing(t, 4)
	bare := startBell(t, d.url.String())
	for _, id := range f.ids[:min(len(f.ids), 40)] {
		f.meter.set("running", id)
		eventually(t, "a change everywhere", func() bool {
			return f.count(func(w *watcher) bool { return w.id == id && len(w.states) == 1 }) == 0
		})
	}
	late := f.delays()
	p50, p99 := late[len(late)/2], late[len(late)*99/100]
	usual, bare99 := bare.delays()
	t.Logf("%d changes are known to another replica after %v (p50) and %v (p99), to a bare connection after %v and %v", len(late), p50, p99, usual, bare99)
	if soon, most := max(knownSoon, hops*usual), max(knownLate, hops*bare99); p50 > soon || p99 > most {
		t.Errorf("the limits are %v and %v", soon, most)
	}
	f.end()
}

// delays are how long after the first replica each other one has told of a second state.
func (f *fleet) delays() (late []time.Duration) {
	told := map[string]map[int]time.Time{}
	for _, w := range f.watchers {
		w.mu.Lock()
		if len(w.at) > 1 {
			if told[w.id] == nil {
				told[w.id] = map[int]time.Time{}
			}
			if at, ok := told[w.id][w.first]; !ok || w.at[1].Before(at) {
				told[w.id][w.first] = w.at[1]
			}
		}
		w.mu.Unlock()
	}
	for _, of := range told {
		var all []time.Time
		for _, at := range of {
			all = append(all, at)
		}
		slices.SortFunc(all, time.Time.Compare)
		for _, at := range all[1:] {
			late = append(late, at.Sub(all[0]))
		}
	}
	slices.Sort(late)
	return late
}

func TestReplicasBehindAPoolerThatCarriesNoNotificationsShareAsWell(t *testing.T) {
	f, d := startSharing(t, 4) // the first makes the schema, for which it needs a session of its own
	pooled, err := url.Parse(d.postgres.Pool(t, strings.TrimPrefix(d.url.Path, "/")))
	if err != nil {
		t.Fatal(err)
	}
	d.url, d.each = pooled, map[int]*tunnel{}
	f.replaceAll()
	n, most := f.requestsIn(10*time.Second), 10*fleetRate+fleetRate
	t.Logf("%d watches through 4 replicas behind a pooler: %d requests in 10 s", *watchesWanted, n)
	if n > most {
		t.Errorf("%d requests, where the rate allows %d", n, most)
	}
	for i, p := range f.replicas { // a claim may have been slow, on a machine with other tests
		eventually(t, fmt.Sprintf("replica %d shares", i), func() bool {
			return p.output.count("this replica polls for itself") <= p.output.count("polls are shared")
		})
	}
	f.end()
}

func TestReplicasOverADatabasePollOnSoonAfterOneIsKilled(t *testing.T) {
	f, _ := startSharing(t, 3)
	for i := range f.replicas {
		f.kill(i)
		gone := time.Now()
		eventually(t, "a poll of another", func() bool { return f.meter.since(gone) > 0 })
		after := time.Since(gone)
		t.Logf("another polls after %v", after)
		if after > goneFor {
			t.Errorf("another polls after %v", after)
		}
		f.start(i)
	}
	f.changed("after all were killed")
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
	if *everySize {
		pauseFor(t.Context(), time.Minute)
	}
	f.signal(f.replicas[stopped], syscall.SIGCONT)
	eventually(t, "the ends at the one that was stopped", func() bool { return f.count(waiting) == 0 })
	f.end()
}

func TestReplicasThatAreCutFromTheDatabasePollForThemselvesAndJoinAgain(t *testing.T) {
	f, _ := startSharing(t, 3)
	cut := time.Now()
	f.site.sever(0)
	eventually(t, "the silence to be noticed", func() bool { return f.replicas[0].output.count("the ledger does not answer: this replica polls") > 0 })
	t.Logf("noticed after %v", time.Since(cut))
	f.changed("on both sides")
	f.site.mend(0)
	eventually(t, "the replica to come back", func() bool { return f.replicas[0].output.count("the ledger answers again") > 0 })
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
	for _, p := range f.replicas {
		eventually(t, "all to share again", func() bool { return p.output.count("the ledger answers again") > 0 })
	}
	f.end()
}

func TestReplicasWhoseDatabaseIsKilledGoOnAndShareAgainOnceItIsBack(t *testing.T) {
	f, d := startSharing(t, 3)
	d.postgres.Kill()
	f.changed("without a database")
	if err := d.postgres.Start(); err != nil {
		t.Fatal(err)
	}
	for _, p := range f.replicas {
		eventually(t, "all to share again", func() bool { return p.output.count("the ledger answers again") > 0 })
	}
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
