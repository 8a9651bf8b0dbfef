package simulation

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

// report is the result of a run in a child process.
type report struct {
	Job    job            `json:"job"`
	Kind   string         `json:"kind"`
	Load   load           `json:"load"`
	Faults map[string]int `json:"faults"` // fired, by id
	Digest string         `json:"digest"` // digest of the history
	Broken []string       `json:"broken"`
}

// load counts the work of a run.
type load struct {
	Time        time.Duration `json:"time"`    // simulated
	Took        time.Duration `json:"took"`    // CPU time of one core
	Working     time.Duration `json:"working"` // number of minutes with requests to the catalog
	Generations int           `json:"generations"`
	Streams     int           `json:"streams"`
	Calls       int           `json:"calls"`    // requests that calls made
	Reads       int           `json:"reads"`    // polls of one generation
	Sweeps      int           `json:"sweeps"`   // polls of the list
	Restarts    int           `json:"restarts"` // number of restarts of replicas
	Events      int           `json:"events"`
}

func (l *load) add(more load) {
	l.Time += more.Time
	l.Took += more.Took
	l.Working += more.Working
	l.Generations += more.Generations
	l.Streams += more.Streams
	l.Calls += more.Calls
	l.Reads += more.Reads
	l.Sweeps += more.Sweeps
	l.Restarts += more.Restarts
	l.Events += more.Events
}

func loadOf(o *outcome, took time.Duration) load {
	l := load{Time: o.End, Took: took, Restarts: o.restarts, Events: len(o.Events)}
	for _, e := range o.Events {
		switch e.Kind {
		case promises.Placed:
			l.Generations++
		case promises.Opened:
			l.Streams++
		}
	}
	minutes := map[time.Duration]bool{}
	for _, q := range o.requests {
		minutes[q.at/time.Minute] = true
		switch {
		case !q.poll:
			l.Calls++
		case q.op == routeList:
			l.Sweeps++
		default:
			l.Reads++
		}
	}
	l.Working = time.Duration(len(minutes)) * time.Minute
	return l
}

func reportOf(j job, o *outcome, took time.Duration) report {
	r := report{Job: j, Kind: o.plan.Kind, Load: loadOf(o, took), Faults: map[string]int{}, Digest: o.digest}
	for _, f := range o.faults {
		r.Faults[f.id] += f.fired
	}
	for _, b := range check(o) {
		r.Broken = append(r.Broken, b.String())
	}
	return r
}

// total is the sum of all runs.
type total struct {
	out    io.Writer
	began  time.Time
	told   time.Time
	twice  time.Duration    // CPU time of one core for repeated runs
	runs   map[string]int   // number by kind
	loads  map[string]*load // load by kind
	faults map[string]int   // runs in which it fired, by id
	hits   map[string]int   // number by id
	again  int              // runs that were repeated
	failed []report
}

func newTotal(out io.Writer) *total {
	return &total{
		out: out, began: time.Now(), runs: map[string]int{}, loads: map[string]*load{}, faults: map[string]int{}, hits: map[string]int{},
	}
}

func (s *total) add(r report) {
	if len(r.Broken) > 0 {
		s.fail(r)
	}
	s.runs[r.Kind]++
	if s.loads[r.Kind] == nil {
		s.loads[r.Kind] = &load{}
	}
	s.loads[r.Kind].add(r.Load)
	for id, n := range r.Faults {
		if s.hits[id] += n; n > 0 {
			s.faults[id]++
		}
	}
	if time.Since(s.told) > 10*time.Second {
		s.told = time.Now()
		sum := s.sum()
		fmt.Fprintf(s.out, "%8.0f hours in %v, %d generations, %d events\n", sum.Time.Hours(), time.Since(s.began).Round(time.Second), sum.Generations, sum.Events)
	}
}

// repeat compares a run with the one of the same seed before it.
func (s *total) repeat(r report, digest string) {
	s.twice += r.Load.Took
	if s.again++; r.Digest != digest {
		r.Broken = append(r.Broken, "a seed is one history: it was another one the second time")
		s.fail(r)
	}
}

func (s *total) fail(r report) {
	s.failed = append(s.failed, r)
	fmt.Fprintf(s.out, "seed %d (%s) broke a promise: %.400s\n", r.Job.Seed, r.Kind, r.Broken[0])
}

func (s *total) sum() (sum load) {
	for _, l := range s.loads {
		sum.add(*l)
	}
	return sum
}

func (s *total) print() {
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nkind\truns\thours\tat work\tcore s\trenders\tstreams\tcalls\treads\tsweeps\trestarts\tevents\trenders/h\tevents/h\t")
	runs := 0
	row := func(name string, count int, l load) {
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.0f\t%.0f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t\n", name, count, l.Time.Hours(), l.Working.Hours(), l.Took.Seconds(),
			l.Generations, l.Streams, l.Calls, l.Reads, l.Sweeps, l.Restarts, l.Events, float64(l.Generations)/l.Time.Hours(), float64(l.Events)/l.Time.Hours())
		runs += count
	}
	for _, kind := range slices.Sorted(maps.Keys(s.runs)) {
		row(kind, s.runs[kind], *s.loads[kind])
	}
	row("all", runs, s.sum())
	table.Flush()
	fmt.Fprintf(s.out, "\n%.0f hours in %v\n", s.sum().Time.Hours(), time.Since(s.began).Round(time.Second))
	fmt.Fprintf(s.out, "faults, runs and times that they fired: %s\n", s.fired())
	fmt.Fprintf(s.out, "%d runs were repeated in %v, %d runs broke\n", s.again, s.twice.Round(time.Second), len(s.failed))
}

func (s *total) fired() string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(s.hits)) {
		parts = append(parts, fmt.Sprintf("%s %d/%d", id, s.faults[id], s.hits[id]))
	}
	return strings.Join(parts, ", ")
}
