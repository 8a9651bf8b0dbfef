//go:build unix

package torture

import (
	"flag"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	watchesWanted = flag.Int("watches", 300, "Number of watches in the replica tests.")
	measured      = flag.Duration("measured", 10*time.Second, "Time in which the replicas' requests are counted.")
)

// renewal is the time within which every replica learns how many replicas share the poll rate. It is longer than the interval
// at which a replica renews its own row in the ledger.
const renewal = 12 * time.Second

// TestReplicasKeepAllWatches checks that all watches survive changes and faults of replicas that share a database.
func TestReplicasKeepAllWatches(t *testing.T) {
	for _, c := range []struct {
		name     string
		replicas int
		happens  func(f *fleet)
	}{
		{"that divide the poll rate", 4, (*fleet).checkDivision},
		{"behind a pooler in transaction mode", 4, func(f *fleet) { // uses the pooler only after the first start, which creates the schema and therefore needs a dedicated session
			f.useLedger(f.postgres.Pool(f.t, strings.TrimPrefix(f.url.Path, "/")))
			f.replaceAll()
			f.checkDivision()
		}},
		{"that are killed", 3, func(f *fleet) {
			for i := range f.replicas {
				f.kill(i)
				f.start(i)
			}
			f.awaitChange("after all were killed")
		}},
		{"one of which loses its database", 3, func(f *fleet) {
			f.ledgers[0].Darken()
			f.awaitChange("on both sides")
			f.ledgers[0].Light()
		}},
		{"whose database hangs", 3, func(f *fleet) {
			for _, ledger := range f.ledgers {
				ledger.Darken()
			}
			f.awaitChange("while the database hangs")
			for _, ledger := range f.ledgers {
				ledger.Light()
			}
		}},
		{"whose database is killed", 3, func(f *fleet) {
			f.postgres.Kill()
			f.awaitChange("without a database")
		}},
		{"whose catalog does not respond", 3, (*fleet).loseCatalog},
		{"one of which is paused", 3, (*fleet).stopOne},
		{"that are replaced one by one", 3, func(f *fleet) {
			f.replaceAll()
			f.awaitChange("at every watch")
			if f.streamCount() == len(f.watchers) {
				f.t.Error("no watch changed its replica, so no replica was replaced")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := startFleet(t, c.replicas)
			c.happens(f)
			f.endGenerations()
		})
	}
}

// checkDivision waits long enough for each replica to get its share of the poll rate. Then it measures the polls for the
// time that the flag -measured sets, and checks that the replicas together do not exceed the poll rate.
func (f *fleet) checkDivision() {
	f.t.Helper()
	pauseFor(f.t.Context(), renewal)
	began := time.Now()
	pauseFor(f.t.Context(), *measured)
	n, most := f.meter.requestsSince(began), fleetRate*(measured.Seconds()+1)
	f.t.Logf("%d watches through %d replicas: %d requests in %v", *watchesWanted, len(f.replicas), n, *measured)
	if float64(n) > most {
		f.t.Errorf("%d requests, but the rate allows only %.0f", n, most)
	}
}

// loseCatalog drops all bytes between the replicas and the catalog for a while. Calls must time out, heartbeats must
// report the outage, and the replicas must close the dead connections.
func (f *fleet) loseCatalog() {
	f.t.Helper()
	f.upstream.Darken()
	if err := f.readGeneration(); status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Unavailable {
		f.t.Errorf("a read during the outage returned %v", err)
	}
	awaitCondition(f.t, "heartbeats that report the outage", func() bool {
		return f.countWatchers(func(w *watcher) bool { return w.unreachable }) == len(f.watchers)
	})
	f.upstream.Light()
	f.awaitChange("after the black hole")
	awaitCondition(f.t, "closed dead connections", func() bool { return !f.upstream.HasFrozen() })
	if err := f.readGeneration(); err != nil {
		f.t.Error(err)
	}
}

// stopOne suspends a replica while generations finish. When the replica continues, it must not deliver outdated
// states.
func (f *fleet) stopOne() {
	f.t.Helper()
	const stopped = 1
	f.meter.set("running", f.ids...)
	f.signal(f.replicas[stopped], syscall.SIGSTOP)
	half := map[string]bool{}
	for _, id := range f.ids[:len(f.ids)/2] {
		half[id] = true
		f.meter.set("succeeded", id)
	}
	waiting := func(w *watcher) bool { return half[w.id] && !w.over }
	awaitCondition(f.t, "the terminal states at the running replicas", func() bool {
		return f.countWatchers(func(w *watcher) bool { return waiting(w) && w.on != stopped }) == 0
	})
	if f.countWatchers(waiting) == 0 {
		f.t.Error("the paused replica has no watch")
	}
	f.signal(f.replicas[stopped], syscall.SIGCONT)
	awaitCondition(f.t, "the terminal states at the paused replica", func() bool { return f.countWatchers(waiting) == 0 })
}

// replaceAll stops the replicas one at a time, and starts a new replica for each.
func (f *fleet) replaceAll() {
	f.t.Helper()
	began := time.Now()
	for i, old := range f.replicas {
		f.signal(old, syscall.SIGTERM)
		<-old.Exited()
		f.start(i)
	}
	f.t.Logf("%d requests in %v while all replicas were replaced and %d generations were watched", f.meter.requestsSince(began), time.Since(began), len(f.ids))
}
