package simulation

import (
	"flag"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *hours == 0 {
		runtime.GOMAXPROCS(1) // it gives what happens at one instant an order
	}
	m.Run()
}

// TestTheStackKeepsItsPromises runs a few short seeds of every sort of trouble.
func TestTheStackKeepsItsPromises(t *testing.T) {
	for seed := range uint64(8) {
		keeps(t, job{Seed: seed + 1, Kind: "short"})
	}
}

// TestTeamsBehindOneAPIKeyAreServedAsPromised runs a few short seeds with a ledger.
func TestTeamsBehindOneAPIKeyAreServedAsPromised(t *testing.T) {
	keeps(t, job{Seed: 1, Kind: "teams-short"})
	for _, id := range []string{"T4c", "T3", "T9", "T10"} {
		keeps(t, job{Seed: 1, Kind: "ledger-" + id})
	}
}

// keeps runs a job, and tells the story of the first promise that it breaks.
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
	for seed, kind := range []string{"short", "short"} {
		plan := planOf(uint64(seed+1), kind)
		first, again := simulate(t, plan), simulate(t, plan)
		if first.digest == again.digest {
			continue
		}
		t.Errorf("seed %d (%s) gave %d and %d events", seed, plan.Kind, len(first.events), len(again.events))
		for i := range min(len(first.events), len(again.events)) {
			if first.events[i] != again.events[i] {
				t.Fatalf("they part here:\n%v\n%v", first.events[i], again.events[i])
			}
		}
	}
}
