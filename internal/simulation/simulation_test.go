package simulation

import (
	"flag"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *hours == 0 {
		runtime.GOMAXPROCS(1) // makes the order of events at one instant deterministic
	}
	m.Run()
}

// few returns all of the jobs, or the first of them with -short. The race detector makes them ten
// times as slow, and all jobs have the same goroutines.
func few(first int, jobs ...job) []job {
	if testing.Short() {
		return jobs[:first]
	}
	return jobs
}

// TestTheStackKeepsItsPromises runs a few short seeds of every sort of trouble.
func TestTheStackKeepsItsPromises(t *testing.T) {
	for _, j := range few(3, seeds("short", 1, 2, 3, 4, 5, 6, 7, 8)...) {
		keeps(t, j)
	}
}

// TestTeamsBehindOneAPIKeyAreServedAsPromised runs a few short seeds with a ledger.
func TestTeamsBehindOneAPIKeyAreServedAsPromised(t *testing.T) {
	jobs := seeds("teams-short", 1, 3)
	for _, id := range []string{"T3", "T9", "T4c", "T7", "T8", "T10"} {
		jobs = append(jobs, job{Seed: 1, Kind: "ledger-" + id})
	}
	for _, j := range few(2, jobs...) {
		keeps(t, j)
	}
}

// TestReplicasWatchAsPromised runs short seeds in which most generations are watched through every replica.
func TestReplicasWatchAsPromised(t *testing.T) {
	jobs := seeds("polls-short", 4)
	for _, id := range []string{"P5", "P6", "T4a", "U5"} {
		jobs = append(jobs, job{Seed: 1, Kind: "polls-only-" + id})
	}
	for _, j := range few(1, jobs...) {
		keeps(t, j)
	}
}

// TestTheGateServesAllInTurn runs short seeds of a catalog that accepts few orders.
func TestTheGateServesAllInTurn(t *testing.T) {
	var jobs []job
	for _, id := range ofTheGate {
		jobs = append(jobs, seeds("gate-only-"+id, 1, 2)...)
	}
	for _, j := range few(1, jobs...) {
		keeps(t, j)
	}
}

// TestTeamsAreToldWhatWasRecorded runs short seeds with events.
func TestTeamsAreToldWhatWasRecorded(t *testing.T) {
	for _, j := range few(1, seeds("events-short", 1, 2, 3)...) {
		if o := keeps(t, j); len(o.Arrivals) < 10 {
			t.Errorf("seed %d: only %d events arrived", j.Seed, len(o.Arrivals))
		}
	}
}

// keeps runs a job, and reports the first promise that it breaks.
func keeps(t *testing.T, j job) *outcome {
	t.Helper()
	o := simulate(t, j.plan())
	for i, b := range check(o) {
		if i == 0 {
			t.Logf("again: %s\n%s", j.command(), failureReport(o, b))
		}
		t.Error(b)
	}
	return o
}

func TestOneSeed(t *testing.T) {
	if *oneSeed == 0 {
		t.Skip("no -seed")
	}
	j := job{Seed: *oneSeed, Kind: *oneKind}
	for _, n := range strings.FieldsFunc(*leaveOut, func(r rune) bool { return r == ',' }) {
		i, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		j.Without = append(j.Without, i)
	}
	t.Log(j.plan())
	began := time.Now()
	o := keeps(t, j)
	r := reportOf(j, o, time.Since(began))
	t.Logf("%+v, digest %s", r.Load, r.Digest)
	for _, f := range o.faults {
		t.Logf("%+v", f)
	}
}

// TestASeedIsOneHistory runs seeds twice: a failure that can't be repeated can't be understood. Worlds with a
// ledger are left out: which of two goroutines gets the one connection to the database first is not the seed's.
func TestASeedIsOneHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("the run without -short compares them")
	}
	for seed, kind := range []string{"short", "short"} {
		plan := planOf(uint64(seed+1), kind)
		first, again := simulate(t, plan), simulate(t, plan)
		if first.digest == again.digest {
			continue
		}
		t.Errorf("seed %d (%s) returned %d and %d events", seed, plan.Kind, len(first.Events), len(again.Events))
		for i := range min(len(first.Events), len(again.Events)) {
			if !reflect.DeepEqual(first.Events[i], again.Events[i]) {
				t.Fatalf("they part here:\n%v\n%v", first.Events[i], again.Events[i])
			}
		}
	}
}
