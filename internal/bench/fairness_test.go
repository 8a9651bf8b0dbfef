package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

var fairnessInFull = flag.Bool("fairness", false, "measure fairness in full, which takes minutes")

// TestMain builds easel and stops PostgreSQL.
func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// fairness is how long the parts of the measurement take.
type fairness struct {
	replicas []int
	alone    time.Duration // the neighbour by itself
	warmUp   time.Duration
	shared   time.Duration // beside all teams
	pause    time.Duration // that the catalog asks for once
}

// The short form, of one replica, holds the same limits but for one pause, and has no quiet machine to tell times.
func TestTheCatalogIsSharedFairly(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute of real time")
	}
	f := fairness{replicas: []int{1}, alone: 3 * time.Second, warmUp: 15 * time.Second, shared: 20 * time.Second, pause: 3 * time.Second}
	if *fairnessInFull {
		f = fairness{replicas: []int{1, 4}, alone: 30 * time.Second, warmUp: 30 * time.Second, shared: time.Minute, pause: 10 * time.Second}
	}
	for _, n := range f.replicas {
		s := newFairSite(t, n)
		s.measureNeighbour(f)
		s.measureShares(f)
		s.measurePause(f)
		s.measureCap()
		s.report()
	}
}

// fairRow is one line of the table.
type fairRow struct {
	title   string
	figure  float64
	limit   float64
	atLeast bool // the limit is the least that will do, and not the most
	timed   bool // a time, which the full form alone looks at
}

// missed reports whether the limit is missed.
func (r fairRow) missed() bool {
	switch {
	case r.timed && !*fairnessInFull:
		return false
	case r.atLeast:
		return r.figure < r.limit
	}
	return r.figure > r.limit
}

// report prints the table, and fails where a limit is missed.
func (s *fairSite) report() {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%d teams, one asks %d × as much as each other; the catalog takes %v orders a second; replicas: %d\n", len(fairTeams), heavyWorkers, catalogRate, len(s.replicas))
	for _, r := range s.rows {
		sign, verdict := "≤", "reached"
		if r.atLeast {
			sign = "≥"
		}
		if r.timed && !*fairnessInFull {
			verdict = "not looked at"
		}
		if r.missed() {
			verdict = missed
			s.t.Errorf("%s: %s, the limit is %s", r.title, short(r.figure), short(r.limit))
		}
		fmt.Fprintf(&table, "%-64s %-8s %s %-6s %s\n", r.title, short(r.figure), sign, short(r.limit), verdict)
	}
	fmt.Fprintf(&table, "orders by team: %v; by weight: %v; reasons of refusals: %v\n", s.served, s.byWeight(), s.refusals())
	s.t.Log(table.String())
}

// jain is Jain's index of fairness: 1 where all have the same.
func jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	return sum * sum / (float64(len(values)) * squares)
}

func TestJainsIndexIsOneWhereAllHaveTheSame(t *testing.T) {
	if got := jain([]float64{3, 3, 3}); got != 1 {
		t.Errorf("of equal shares it is %v", got)
	}
	if got := jain([]float64{1, 0, 0, 0}); got != 0.25 {
		t.Errorf("where one of four has all it is %v", got)
	}
}
