package simulation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
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

// patience is how long one run may take on the wall clock.
const patience = 3 * time.Minute

// job is one run that a child is asked for.
type job struct {
	Seed    uint64 `json:"seed"`
	Kind    string `json:"kind,omitempty"`
	Without []int  `json:"without,omitempty"`
}

func (j job) plan() plan { return planOf(j.Seed, j.Kind).without(j.Without) }

// flags let a test binary run the job and tell its story.
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

// report is what a child tells of a run.
type report struct {
	Job      job            `json:"job"`
	Kind     string         `json:"kind"`
	Time     time.Duration  `json:"time"` // simulated
	Took     time.Duration  `json:"took"`
	Renders  int            `json:"renders"`
	Streams  int            `json:"streams"`
	Calls    int            `json:"calls"`    // requests that calls made
	Reads    int            `json:"reads"`    // polls of one render
	Sweeps   int            `json:"sweeps"`   // polls of the list
	Restarts int            `json:"restarts"` // of replicas
	Faults   map[string]int `json:"faults"`   // fired, by id
	Events   int            `json:"events"`
	Broken   []string       `json:"broken"`
}

func reportOf(j job, o *outcome, took time.Duration) report {
	r := report{
		Job: j, Kind: o.plan.Kind, Time: o.end, Took: took, Restarts: o.restarts, Events: len(o.events), Faults: map[string]int{},
	}
	for _, e := range o.events {
		switch e.kind {
		case sawPlaced:
			r.Renders++
		case sawOpen:
			r.Streams++
		}
	}
	for _, q := range o.requests {
		switch {
		case !q.poll:
			r.Calls++
		case q.op == routeList:
			r.Sweeps++
		default:
			r.Reads++
		}
	}
	for _, f := range o.faults {
		r.Faults[f.id] += f.fired
	}
	for _, b := range check(o) {
		r.Broken = append(r.Broken, b.String())
	}
	return r
}

const childMark = "EASEL_SIMULATION_CHILD"

// TestChild runs what it is asked for until nothing more comes. It is the other end of a child.
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

// run does one job. A child that dies, or takes too long, is what the seed did.
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

// tail keeps the beginning of what a child says: the reason of a panic stands there.
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

// TestSimulate is make simulate.
func TestSimulate(t *testing.T) {
	if *hours == 0 {
		t.Skip("no -hours")
	}
	var sum total
	seed, asked := *firstOne-1, time.Duration(0)
	limit := time.Duration(*hours * float64(time.Hour))
	sum.began, sum.out = time.Now(), os.Stderr
	f := &fleet{
		next: func() (job, bool) {
			if asked >= limit {
				return job{}, false
			}
			seed++
			j := job{Seed: seed, Kind: *oneKind}
			asked += j.plan().Length
			return j, true
		},
		done: sum.add,
	}
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	sum.print()
	if len(sum.failed) > 0 {
		first := slices.MinFunc(sum.failed, func(a, b report) int { return int(a.Job.Seed) - int(b.Job.Seed) })
		t.Fatal(shrink(first))
	}
}

// total is the sum of all runs.
type total struct {
	report
	runs   map[string]int
	failed []report
	began  time.Time
	told   time.Time
	out    io.Writer
	cpu    time.Duration
}

func (s *total) add(r report) {
	if s.runs == nil {
		s.runs, s.Faults = map[string]int{}, map[string]int{}
	}
	s.runs[r.Kind]++
	s.Time += r.Time
	s.cpu += r.Took
	s.Renders += r.Renders
	s.Streams += r.Streams
	s.Calls += r.Calls
	s.Reads += r.Reads
	s.Sweeps += r.Sweeps
	s.Restarts += r.Restarts
	s.Events += r.Events
	for id, n := range r.Faults {
		s.Faults[id] += n
	}
	if len(r.Broken) > 0 {
		s.failed = append(s.failed, r)
		fmt.Fprintf(s.out, "seed %d (%s) broke a promise: %.400s\n", r.Job.Seed, r.Kind, r.Broken[0])
	}
	if time.Since(s.told) > 10*time.Second {
		s.told = time.Now()
		fmt.Fprintf(s.out, "%8.0f hours in %v, %d renders, %d requests\n", s.Time.Hours(), time.Since(s.began).Round(time.Second), s.Renders, s.Calls+s.Reads+s.Sweeps)
	}
}

func (s *total) print() {
	line := func(name string, value any) { fmt.Fprintf(s.out, "  %-22s %v\n", name, value) }
	fmt.Fprintln(s.out)
	line("simulated hours", fmt.Sprintf("%.0f in %v (%v of one core)", s.Time.Hours(), time.Since(s.began).Round(time.Second), s.cpu.Round(time.Second)))
	line("runs", inOrder(s.runs))
	line("renders", s.Renders)
	line("requests of calls", s.Calls)
	line("polls of one render", s.Reads)
	line("polls of the list", s.Sweeps)
	line("watch streams", s.Streams)
	line("restarts of replicas", s.Restarts)
	line("events", s.Events)
	line("faults that fired", inOrder(s.Faults))
	line("runs that broke", len(s.failed))
}

func inOrder(counts map[string]int) string {
	var parts []string
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
