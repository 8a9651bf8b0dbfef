package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *hours == 0 {
		runtime.GOMAXPROCS(1) // makes the order of events at the same instant deterministic, because only one goroutine runs at a time
	}
	m.Run()
}

// TestShortSimulationsSatisfyAllInvariants runs short simulations. The race detector makes them ten times slower. With -short, the
// test therefore runs only a third of the simulations in each row of its table. This is enough to find data races, because
// all simulations in a row start the same goroutines.
func TestShortSimulationsSatisfyAllInvariants(t *testing.T) {
	for _, row := range [][]job{
		seeds("short", 1, 2, 3, 4, 5, 6, 7, 8),
		append(seeds("teams-short", 1, 3), oneOfEach("ledger-", "T2", "T3", "T9", "T4c", "T10", "M2", "M4")...),
		oneOfEach("ledger-", "G3"),
		append(seeds("polls-short", 4), oneOfEach("polls-only-", "P5", "T4a", "U5")...),
		seeds("events-short", 1, 2, 3),
	} {
		if testing.Short() {
			row = row[:(len(row)+1)/3]
		}
		for _, j := range row {
			t.Run(fmt.Sprint(j.kind, "/", j.seed), func(t *testing.T) {
				if o := runAndCheck(t, j); j.kind == "events-short" && len(o.Arrivals) < 10 {
					t.Errorf("only %d events arrived", len(o.Arrivals))
				}
			})
		}
	}
}

// TestSameSeedProducesTheSameEvents checks that two runs with the same seed have the same events. Otherwise, a failure
// could not be repeated and analyzed. The runs have no ledger, because two goroutines may compete for a ledger's only
// database connection, and the seed does not determine which of them gets it first.
func TestSameSeedProducesTheSameEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short")
	}
	p := planOf(1, "short")
	if first, again := simulate(t, p), simulate(t, p); first.digest != again.digest {
		t.Errorf("%s: two runs have different events: %d and %d", p.Kind, len(first.Events), len(again.Events))
	}
}

// oneOfEach returns one job for each planned fault whose ID is in troubles. A job's kind consists of kindPrefix and
// this ID.
func oneOfEach(kindPrefix string, troubles ...string) (jobs []job) {
	for _, id := range troubles {
		jobs = append(jobs, seeds(kindPrefix+id, 1)...)
	}
	return jobs
}

// runAndCheck runs the job j and reports each promise that the job breaks. For the first broken promise, it also logs a
// failure report and the command that repeats the job.
func runAndCheck(t *testing.T, j job) *outcome {
	t.Helper()
	o := simulate(t, j.plan())
	broken := check(o)
	r := report{Digest: o.digest}
	for i, b := range broken {
		if i == 0 {
			t.Logf("repeat with: %s\n%s", j.command(), failureReport(o, b))
		}
		t.Error(b)
		r.Broken = append(r.Broken, b.String())
	}
	text, _ := json.Marshal(r)
	t.Logf("%s%s", reportMark, text)
	return o
}

func TestOneSeed(t *testing.T) {
	if *oneSeed == 0 {
		t.Skip("requires -seed")
	}
	j := job{seed: *oneSeed, kind: *oneKind}
	t.Log(j.plan())
	for _, f := range runAndCheck(t, j).faults {
		t.Logf("%+v", f)
	}
}
