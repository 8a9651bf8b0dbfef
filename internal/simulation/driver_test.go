package simulation

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	hours    = flag.Float64("hours", 0, "Number of hours to simulate, with a separate process for each seed.")
	firstOne = flag.Uint64("from", 1, "First seed of a run with -hours.")
	oneSeed  = flag.Uint64("seed", 0, "Run a single seed, and log its plan and faults.")
	oneKind  = flag.String("kind", "", "Kind of run. If empty, the seed selects the kind.")
)

// patience is the maximum wall-clock time of a run.
const patience = 10 * time.Minute

// job identifies a run by its seed and its kind.
type job struct {
	seed uint64
	kind string
}

func (j job) plan() plan { return planOf(j.seed, j.kind) }

// flags returns the flags with which a test binary runs the job.
func (j job) flags() []string { return []string{"-seed", fmt.Sprint(j.seed), "-kind", j.kind} }

// command returns the shell command that runs the job again.
func (j job) command() string {
	return fmt.Sprintf("go test ./internal/simulation -v -run '^TestOneSeed$' -seed %d -kind '%s'", j.seed, j.kind)
}

// report is the result of a run.
type report struct {
	Digest string   `json:"digest"` // hash of all events
	Broken []string `json:"broken"`

	output string
}

// reportMark precedes a report in the output of a run.
const reportMark = "report: "

// run runs the job in a separate process. GOMAXPROCS is 1, so that events at the same instant always have the same
// order. If the process crashes or times out, the report lists this failure as a broken promise.
func (j job) run(ctx context.Context, binary string) (r report) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	command := exec.CommandContext(ctx, binary, append([]string{"-test.v", "-test.run", "^TestOneSeed$", "-test.timeout", "0"}, j.flags()...)...)
	command.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	out, err := command.CombinedOutput()
	_, text, found := strings.Cut(string(out), reportMark)
	if found {
		found = json.NewDecoder(strings.NewReader(text)).Decode(&r) == nil
	}
	if r.output = string(out); !found || err != nil && len(r.Broken) == 0 {
		r.Broken = []string{fmt.Sprintf("the process failed: %v", err)}
	}
	return r
}

// repeated determines the seeds that are simulated twice: the multiples of this number. Both runs of a seed must be
// identical to the nanosecond. Otherwise, the run of a failing seed could not be repeated for an analysis.
const repeated = 20

// TestSimulate runs consecutive seeds until their simulated time adds up to the number of hours in the flag -hours.
// 'make simulate' runs this test.
func TestSimulate(t *testing.T) {
	if *hours == 0 {
		t.Skip("requires -hours")
	}
	jobs := make(chan job)
	go func() {
		defer close(jobs)
		for seed, left := *firstOne, time.Duration(*hours*float64(time.Hour)); left > 0; seed++ {
			j := job{seed, *oneKind}
			left -= j.plan().Length
			jobs <- j
		}
	}()
	var all sync.WaitGroup
	var runs atomic.Int64
	for range runtime.NumCPU() {
		all.Go(func() {
			for j := range jobs {
				runs.Add(1)
				r := j.run(t.Context(), os.Args[0])
				if len(r.Broken) == 0 && j.seed%repeated == 0 && j.run(t.Context(), os.Args[0]).Digest != r.Digest {
					r.Broken = []string{"the second run of the seed differs from the first run"}
				}
				if len(r.Broken) > 0 {
					t.Errorf("the run with seed %d broke a promise of Easel: %.400s\nrepeat with: %s", j.seed, r.Broken[0], j.command())
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d runs", runs.Load())
}
