package simulation

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	hours    = flag.Float64("hours", 0, "simulate so many hours, in a process for each core")
	firstOne = flag.Uint64("from", 1, "first seed of -hours")
	oneSeed  = flag.Uint64("seed", 0, "run one seed, and tell all that is known of it")
	oneKind  = flag.String("kind", "", "sort of run; empty lets the seed decide")
	leaveOut = flag.String("without", "", "numbers of troubles of the plan to leave out, with commas")
)

// patience is the maximum wall time of one run.
const patience = 10 * time.Minute

// job is a request for one run in a child process.
type job struct {
	Seed    uint64 `json:"seed"`
	Kind    string `json:"kind,omitempty"`
	Without []int  `json:"without,omitempty"`
}

func (j job) plan() plan { return planOf(j.Seed, j.Kind).without(j.Without) }

// flags returns the flags with which a test binary runs the job and prints its report.
func (j job) flags() []string {
	list := []string{"-test.v", "-test.run", "^TestOneSeed$", "-test.timeout", "0", "-seed", fmt.Sprint(j.Seed)}
	if j.Kind != "" {
		list = append(list, "-kind", j.Kind)
	}
	if len(j.Without) > 0 {
		list = append(list, "-without", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(j.Without)), ","), "[]"))
	}
	return list
}

// command runs the job again by hand.
func (j job) command() string {
	return "go test ./internal/simulation -v -run '^TestOneSeed$' " + strings.Join(j.flags()[5:], " ")
}

const childMark = "EASEL_SIMULATION_CHILD"

// TestChild runs jobs until its input ends. It is the main function of a child process.
func TestChild(t *testing.T) {
	if os.Getenv(childMark) == "" {
		t.Skip("it is for children of TestSimulate")
	}
	answers := json.NewEncoder(os.NewFile(3, "answers"))
	for asked := json.NewDecoder(os.Stdin); ; {
		var j job
		if err := asked.Decode(&j); err != nil {
			return
		}
		began := time.Now()
		o := simulate(t, j.plan())
		if err := answers.Encode(reportOf(j, o, time.Since(began))); err != nil {
			t.Fatal(err)
		}
	}
}

// child is a process that runs one job after the other.
type child struct {
	command *exec.Cmd
	ask     *json.Encoder
	answers *bufio.Reader
	close   func()
	said    *tail
}

func startChild() (*child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &child{said: &tail{}}
	c.command = exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=0")
	c.command.Env = append(os.Environ(), childMark+"=1", "GOMAXPROCS=1", "GOGC=400")
	c.command.ExtraFiles = []*os.File{write}
	c.command.Stdout, c.command.Stderr = c.said, c.said
	in, err := c.command.StdinPipe()
	if err == nil {
		err = c.command.Start()
	}
	write.Close()
	if err != nil {
		read.Close()
		return nil, err
	}
	c.ask, c.answers = json.NewEncoder(in), bufio.NewReader(read)
	c.close = func() { in.Close(); _ = c.command.Wait(); read.Close() }
	return c, nil
}

// run executes one job. The death or timeout of a child is a result of the seed.
func (c *child) run(j job) (r report, alive bool) {
	r = report{Job: j, Kind: j.plan().Kind}
	late := time.AfterFunc(patience, func() { _ = c.command.Process.Signal(os.Interrupt); _ = c.command.Process.Kill() })
	defer late.Stop()
	if err := c.ask.Encode(j); err != nil {
		r.Broken = []string{"the process is gone: " + c.said.String()}
		return r, false
	}
	line, err := c.answers.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err == nil {
		return r, true
	}
	_ = c.command.Wait()
	why := "the process died"
	if !late.Stop() {
		why = fmt.Sprintf("the run took longer than %v", patience)
	}
	r.Broken = []string{why + ": " + c.said.String()}
	return r, false
}

// tail keeps the beginning of a child's output, which has the reason of a panic.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p[:min(len(p), max(0, 16<<10-t.text.Len()))])
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// fleet runs jobs on all cores.
type fleet struct {
	next func() (job, bool) // the next job, if there is one
	done func(report)

	mu sync.Mutex
}

func (f *fleet) run() error {
	var all sync.WaitGroup
	failed := make(chan error, runtime.NumCPU())
	for range runtime.NumCPU() {
		all.Go(func() { failed <- f.work() })
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) work() error {
	for {
		c, err := startChild()
		if err != nil {
			return err
		}
		for alive := true; alive; {
			f.mu.Lock()
			j, more := f.next()
			f.mu.Unlock()
			if !more {
				c.close()
				return nil
			}
			var r report
			r, alive = c.run(j)
			f.mu.Lock()
			f.done(r)
			f.mu.Unlock()
		}
	}
}

// repeated is the number of runs of which another process repeats one. The repeat must be identical to
// the nanosecond, because otherwise a failing seed could not be analyzed.
const repeated = 20

// TestSimulate implements make simulate.
func TestSimulate(t *testing.T) {
	if *hours == 0 {
		t.Skip("no -hours")
	}
	sum := newTotal(os.Stderr)
	seed, asked := *firstOne-1, time.Duration(0)
	limit := time.Duration(*hours * float64(time.Hour))
	digests := map[uint64]string{} // digests of runs that are to be repeated
	var again []job
	f := &fleet{
		next: func() (j job, more bool) {
			if len(again) > 0 {
				j, again = again[0], again[1:]
				return j, true
			}
			if asked >= limit {
				return job{}, false
			}
			seed++
			j = job{Seed: seed, Kind: *oneKind}
			asked += j.plan().Length
			return j, true
		},
		done: func(r report) {
			if first, ok := digests[r.Job.Seed]; ok {
				sum.repeat(r, first)
				return
			}
			sum.add(r)
			if r.Job.Seed%repeated == 0 && len(r.Broken) == 0 {
				digests[r.Job.Seed] = r.Digest
				again = append(again, r.Job)
			}
		},
	}
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	sum.print()
	if len(sum.failed) > 0 {
		first := slices.MinFunc(sum.failed, func(a, b report) int { return cmp.Compare(a.Job.Seed, b.Job.Seed) })
		t.Fatal(shrink(first))
	}
}
