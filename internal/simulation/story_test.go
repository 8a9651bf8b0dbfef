package simulation

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

// shrink removes troubles one at a time, as long as the run still breaks, and returns the
// failureReport of the rest.
func shrink(r report) string {
	j, broken := r.Job, r.Broken
	for again := true; again; {
		again = false
		for i := range planOf(j.Seed, j.Kind).Troubles {
			if contains(j.Without, i) {
				continue
			}
			less := j
			less.Without = append(append([]int(nil), j.Without...), i)
			c, err := startChild()
			if err != nil {
				return err.Error()
			}
			tried, alive := c.run(less)
			if alive {
				c.close()
			}
			if len(tried.Broken) > 0 {
				j, broken, again = less, tried.Broken, true
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d broke %d promises; the first:\n  %s\n", r.Job.Seed, len(r.Broken), r.Broken[0])
	fmt.Fprintf(&b, "the shortest plan that breaks one:\n  %s\n  %s\n", j.plan(), broken[0])
	fmt.Fprintf(&b, "run it again:\n  %s\n", j.command())
	b.WriteString(describe(j))
	return b.String()
}

// describe runs a job in its own process, and returns its output.
func describe(j job) string {
	run := exec.Command(os.Args[0], j.flags()...)
	run.Env = append(os.Environ(), "GOMAXPROCS=1")
	said := &tail{}
	run.Stdout, run.Stderr = said, said
	if err := run.Start(); err != nil {
		return err.Error()
	}
	late := time.AfterFunc(patience, func() { _ = run.Process.Kill() })
	defer late.Stop()
	_ = run.Wait() // it is expected to fail; only its output matters
	return said.String()
}

func contains(list []int, n int) bool {
	for _, one := range list {
		if one == n {
			return true
		}
	}
	return false
}

// failureReport describes the observations about the first broken promise.
func failureReport(o *outcome, b promises.Broken) string {
	var s strings.Builder
	fmt.Fprintf(&s, "plan: %s\n", o.plan)
	for _, t := range o.plan.Troubles {
		fmt.Fprintf(&s, "  %s\n", t)
	}
	fmt.Fprintf(&s, "broken: %s\n", b)
	if one, known := o.Truth[b.Generation]; known {
		fmt.Fprintf(&s, "truth of %s: %+v\n", b.Generation, one)
	}
	key := ""
	for _, e := range o.Events {
		if e.Kind == promises.Placed && (e.Generation == b.Generation || e.Text == b.Generation) {
			key = e.Text
		}
	}
	requests, lines := o.sent(), 0
	tell := func(r request) {
		fmt.Fprintf(&s, "%14s %-12s request  %s %s -> %d after %v poll=%t cut=%t\n", r.at, r.process, r.op, r.path[strings.LastIndex(r.path, "/")+1:], r.status, r.end-r.at, r.poll, r.cut)
	}
	for _, e := range o.Events {
		for len(requests) > 0 && requests[0].at <= e.At {
			if r := requests[0]; b.Generation != "" && strings.Contains(r.path, b.Generation) || key != "" && r.key == key {
				tell(r)
				lines++
			}
			requests = requests[1:]
		}
		about := e.Generation != "" && (e.Generation == b.Generation || e.Generation == key) || key != "" && e.Text == key || e.Kind == promises.Fault || b.Generation == "" && e.Actor == b.Actor
		if about && lines < 400 {
			fmt.Fprintln(&s, e)
			lines++
		}
	}
	return s.String()
}
