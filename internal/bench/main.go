package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

// benchKey is the credential of all load. It is forwarded to the stub, which takes any.
const benchKey = "bench_live_0123456789abcdef"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// run measures, or plays the part that another run of this program has asked for.
func run(args []string) error {
	if len(args) > 0 {
		if role := roles[args[0]]; role != nil {
			return role(args[1:])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := &bench{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&b.easel, "easel", "bin/easel", "the program to measure")
	flags.IntVar(&b.repeats, "repeats", 5, "how often each side of a row is measured")
	flags.Float64Var(&b.scale, "scale", 1, "share of the full load of each row; figures of less than 1 are not comparable")
	flags.StringVar(&b.profile, "profile", "", "also write a CPU profile of the facade to this file: two seconds of the last run")
	flags.BoolVar(&b.counts, "counts", false, "the short form: only what is counted and not timed, once, under a tenth of the load; fails where it is more than allowed")
	output := flags.String("json", "", "also write the results to this file")
	flags.Usage = func() {
		_, _ = fmt.Fprintf(flags.Output(), "usage: bench [flags] [row ...]\n\nRows: %s. Without any, all of them.\n\n", strings.Join(rowNames(), " "))
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	if b.counts {
		b.repeats, b.scale = 1, 0.1
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(r row) bool { return r.most == 0 })
		for i := range chosen {
			chosen[i].reach, chosen[i].dream = chosen[i].most, 0
		}
	}
	if b.dir, err = os.MkdirTemp("", "easel-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	return b.measure(ctx, os.Stdout, chosen, *output)
}

// roles are the parts that this program plays for its own runs.
var roles = map[string]func(args []string) error{
	"stub": func([]string) error { return runStub() },
	"sink": func(args []string) error { return runSink(args[0]) },
	"bare": func(args []string) error {
		flags := flag.NewFlagSet("bare", flag.ContinueOnError)
		upstream := flags.String("upstream", "", "base address of the catalog")
		every := flags.Duration("every", 2*time.Second, "time between two polls")
		alone := flags.Bool("alone", false, "each watcher polls for itself")
		if err := flags.Parse(args); err != nil {
			return err
		}
		return runBare(*upstream, *every, *alone)
	},
	"learn": runLearn,
}

// bench is one run.
type bench struct {
	easel   string
	dir     string // of logs
	repeats int
	scale   float64
	counts  bool   // the short form
	profile string // file for a CPU profile of the facade; or ""
}

// load scales a number of streams, calls or renders.
func (b *bench) load(n int) int { return max(1, int(float64(n)*b.scale)) }

// lasting scales a time of measurement.
func (b *bench) lasting(d time.Duration) time.Duration {
	return max(200*time.Millisecond, time.Duration(float64(d)*b.scale))
}

// machine says what the figures were measured on.
func machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
