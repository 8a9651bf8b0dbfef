package simulation

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

var (
	hours    = flag.Float64("hours", 0, "Number of hours to simulate, with a separate process for each seed.")
	firstOne = flag.Uint64("from", 1, "First seed of a run with -hours.")
	oneSeed  = flag.Uint64("seed", 0, "Run a single seed, and log its plan and faults.")
	oneKind  = flag.String("kind", "", "Kind of run. If empty, the seed selects the kind.")
	leaveOut = flag.String("without", "", "Comma-separated indexes of the plan's troubles to leave out.")
)

// patience is the maximum wall-clock time of a run.
const patience = 10 * time.Minute

// job describes a run.
type job struct {
	seed    uint64
	kind    string
	without []int
}

func (j job) plan() plan { return planOf(j.seed, j.kind).without(j.without) }

// flags returns the flags with which a test binary runs the job.
func (j job) flags() []string {
	list := []string{"-seed", fmt.Sprint(j.seed)}
	if j.kind != "" {
		list = append(list, "-kind", j.kind)
	}
	if len(j.without) > 0 {
		list = append(list, "-without", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(j.without)), ","), "[]"))
	}
	return list
}

// command returns the shell command that runs the job again.
func (j job) command() string {
	return "go test ./internal/simulation -v -run '^TestOneSeed$' " + strings.Join(j.flags(), " ")
}

// report is a run's result.
type report struct {
	Kind   string         `json:"kind"`
	Hours  float64        `json:"hours"`
	Counts map[string]int `json:"counts"`
	Faults map[string]int `json:"faults"` // number of times that each fault fired, by name
	Digest string         `json:"digest"` // hash of the events
	Broken []string       `json:"broken"`

	job    job
	output string
}

// reportMark precedes a report in the output of a run.
const reportMark = "report: "

func reportOf(o *outcome, broken []promises.Broken) report {
	r := report{Kind: o.plan.Kind, Hours: o.End.Hours(), Digest: o.digest, Faults: map[string]int{}}
	r.Counts = map[string]int{"runs": 1, "restarts": o.restarts, "events": len(o.Events)}
	for _, e := range o.Events {
		switch e.Kind {
		case promises.Placed:
			r.Counts["renders"]++
		case promises.Opened:
			r.Counts["streams"]++
		}
	}
	for _, q := range o.requests {
		r.Counts[map[bool]string{true: "polls", false: "calls"}[q.poll]]++
	}
	for _, f := range o.faults {
		r.Faults[f.id] += f.fired
	}
	for _, b := range broken {
		r.Broken = append(r.Broken, b.String())
	}
	return r
}

// run runs the job in a process with one CPU, so that events at the same instant have a deterministic order. If the
// process crashes or times out, the report states it.
func (j job) run(ctx context.Context, binary string) report {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	command := exec.CommandContext(ctx, binary, append([]string{"-test.v", "-test.run", "^TestOneSeed$", "-test.timeout", "0"}, j.flags()...)...)
	command.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	out, err := command.CombinedOutput()
	r := report{Kind: j.plan().Kind, job: j, output: string(out)}
	_, text, found := strings.Cut(r.output, reportMark)
	if found {
		found = json.NewDecoder(strings.NewReader(text)).Decode(&r) == nil
	}
	if !found || err != nil && len(r.Broken) == 0 {
		r.Broken = []string{fmt.Sprintf("the process failed: %v", err)}
	}
	return r
}

// repeated is the number of runs for each run that is repeated. The repeated run must be identical to the nanosecond,
// because otherwise a failing seed could not be analyzed.
const repeated = 20

// TestSimulate implements 'make simulate'.
func TestSimulate(t *testing.T) {
	if *hours == 0 {
		t.Skip("no -hours")
	}
	began, seed, left := time.Now(), *firstOne, time.Duration(*hours*float64(time.Hour))
	var mu sync.Mutex
	next := func() (j job, more bool) {
		mu.Lock()
		defer mu.Unlock()
		j = job{seed: seed, kind: *oneKind}
		if left <= 0 {
			return j, false
		}
		seed++
		left -= j.plan().Length
		return j, true
	}
	var reports []report
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for j, more := next(); more; j, more = next() {
				r := j.run(t.Context(), os.Args[0])
				if again := r; j.seed%repeated == 0 && len(r.Broken) == 0 {
					if again = j.run(t.Context(), os.Args[0]); again.Digest != r.Digest {
						r.Broken = []string{"a seed is one history: it was another one the second time"}
					}
				}
				mu.Lock()
				if reports = append(reports, r); len(r.Broken) > 0 {
					t.Errorf("seed %d (%s) broke a promise: %.400s", j.seed, r.Kind, r.Broken[0])
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("in %v:\n%s", time.Since(began).Round(time.Second), table(reports))
	for _, r := range reports {
		if len(r.Broken) > 0 {
			t.Fatal(r.shortest(t.Context()).output)
		}
	}
}

// shortest removes one trouble at a time, as long as the run still breaks a promise.
func (r report) shortest(ctx context.Context) report {
	for i := range planOf(r.job.seed, r.job.kind).Troubles {
		less := r.job
		less.without = append(slices.Clone(less.without), i)
		if tried := less.run(ctx, os.Args[0]); len(tried.Broken) > 0 {
			r = tried
		}
	}
	return r
}

// table returns the figures of all runs by kind, and the number of runs in which each fault fired.
func table(reports []report) string {
	columns := []string{"runs", "renders", "streams", "calls", "polls", "restarts", "events"}
	hours, sums, faults := map[string]float64{}, map[string]map[string]int{}, map[string]int{}
	for _, r := range reports {
		for _, kind := range []string{r.Kind, "~ all"} {
			if sums[kind] == nil {
				sums[kind] = map[string]int{}
			}
			hours[kind] += r.Hours
			for name, n := range r.Counts {
				sums[kind][name] += n
			}
		}
		for id, hits := range r.Faults {
			faults[id] += min(hits, 1)
		}
	}
	var text strings.Builder
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(rows, "kind\thours\t%s\t\n", strings.Join(columns, "\t"))
	for _, kind := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(rows, "%s\t%.0f\t", kind, hours[kind])
		for _, name := range columns {
			fmt.Fprintf(rows, "%d\t", sums[kind][name])
		}
		fmt.Fprintln(rows)
	}
	rows.Flush()
	return fmt.Sprintf("%s\nruns in which each fault has fired: %v", &text, faults)
}
