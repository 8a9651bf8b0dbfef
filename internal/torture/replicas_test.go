//go:build unix

package torture

import (
	"flag"
	"syscall"
	"testing"
	"time"
)

var watchesWanted = flag.Int("watches", 300, "watches of the tests of replicas")

const replicas = 3

// startReplicas starts three with generations and watches, and waits until one polls for all.
func startReplicas(t *testing.T) (f *fleet, owner int) {
	t.Helper()
	t.Parallel()
	return startReplicasAt(t, &tunnels{})
}

func startReplicasAt(t *testing.T, at network) (f *fleet, owner int) {
	t.Helper()
	f = startFleet(t, at, replicas, min(*watchesWanted/replicas, 1000))
	f.watch(*watchesWanted)
	owner = f.leader()
	before := time.Now()
	eventually(t, "generations on their way", func() bool { return f.meter.since(before) > 2 })
	return f, owner
}

func TestReplicasWhoseOwnerIsKilledGoOnWithinTheLeaseAndOnePoll(t *testing.T) {
	f, owner := startReplicas(t)
	before := f.acquisitions()
	f.kill(owner)
	_, after := f.successor(owner, before)
	t.Logf("another took the lease after %v", after)
	if after > leaseLife+time.Second {
		t.Errorf("another took the lease after %v", after)
	}
	f.meter.set("running", f.ids...)
	changed := time.Now()
	eventually(t, "the change at every watch", func() bool { return f.count(func(w *watcher) bool { return len(w.states) > 1 }) == len(f.watchers) })
	t.Logf("every watch had the next change after %v", time.Since(changed))
	f.start(owner)
	f.end()
}

func TestReplicasWhoseOwnerIsStoppedTakeNothingOldFromItLater(t *testing.T) {
	f, owner := startReplicas(t)
	before, stopped := f.acquisitions(), f.replicas[owner]
	f.meter.set("running", f.ids...)
	f.signal(stopped, syscall.SIGSTOP)
	_, after := f.successor(owner, before)
	t.Logf("another took the lease after %v", after)
	if after > leaseLife+time.Second {
		t.Errorf("another took the lease after %v", after)
	}
	half := map[string]bool{}
	for _, id := range f.ids[:len(f.ids)/2] {
		half[id] = true
		f.meter.set("succeeded", id)
	}
	waiting := func(w *watcher) bool { return half[w.id] && !w.over }
	eventually(t, "the ends at the replicas that run", func() bool { return f.count(func(w *watcher) bool { return waiting(w) && w.first != owner }) == 0 })
	if f.count(waiting) == 0 {
		t.Error("nobody waits at the replica that is stopped")
	}
	f.signal(stopped, syscall.SIGCONT)
	eventually(t, "the ends at the one that was stopped", func() bool { return f.count(waiting) == 0 })
	f.end()
}

func TestReplicasWithoutNATSGoOnAndShareAgainOnceItIsBack(t *testing.T) {
	f, _ := startReplicas(t)
	before := f.acquisitions()
	f.nats.kill()
	f.meter.set("running", f.ids...)
	eventually(t, "the change without NATS", func() bool { return f.count(func(w *watcher) bool { return len(w.states) > 1 }) == len(f.watchers) })
	f.startNATS()
	_, after := f.successor(-1, before)
	t.Logf("a lease again %v after NATS was back", after)
	f.end()
}

func TestReplicasWhoseNATSHangsGoOn(t *testing.T) {
	f, _ := startReplicas(t)
	before := f.acquisitions()
	f.signal(f.nats, syscall.SIGSTOP)
	f.meter.set("running", f.ids...)
	eventually(t, "the change while NATS hangs", func() bool { return f.count(func(w *watcher) bool { return len(w.states) > 1 }) == len(f.watchers) })
	hung := time.Now()
	for time.Since(hung) < 2*leaseLife { // until every lease is over
		pauseFor(t.Context(), 100*time.Millisecond)
	}
	f.signal(f.nats, syscall.SIGCONT)
	_, after := f.successor(-1, before)
	t.Logf("a lease again %v after NATS went on", after)
	f.end()
}

func TestReplicasThatAreCutFromNATSPollForThemselvesAndTheOthersGoOn(t *testing.T) {
	f, owner := startReplicas(t)
	f.partition(owner)
}

// partition cuts the owner off from NATS, and joins it again.
func (f *fleet) partition(owner int) {
	f.t.Helper()
	before, cut := f.acquisitions(), time.Now()
	f.site.sever(owner)
	_, after := f.successor(owner, before)
	f.t.Logf("another took the lease after %v", after)
	if after > leaseLife+time.Second {
		f.t.Errorf("another took the lease after %v", after)
	}
	f.meter.set("running", f.ids...)
	eventually(f.t, "the change on both sides", func() bool { return f.count(func(w *watcher) bool { return len(w.states) > 1 }) == len(f.watchers) })
	eventually(f.t, "the silence to be noticed", func() bool { return f.replicas[owner].output.count("NATS is gone") > 0 })
	f.t.Logf("%d requests in %v of partition", f.meter.since(cut), time.Since(cut))
	f.site.mend(owner)
	eventually(f.t, "the replica to come back", func() bool { return f.replicas[owner].output.count("connected to NATS again") > 0 })
	f.end()
}

func TestReplicasThatAreReplacedOneByOneLoseNothing(t *testing.T) {
	f, _ := startReplicas(t)
	f.replaceAll()
	f.meter.set("running", f.ids...)
	eventually(t, "the change at every watch", func() bool { return f.count(func(w *watcher) bool { return len(w.states) > 1 }) == len(f.watchers) })
	f.end()
	if breaks := f.count(func(w *watcher) bool { return w.breaks > 1 }); breaks == 0 {
		t.Error("no watch was moved: nothing was replaced")
	}
}
