package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
)

// benchKey is the API key of all calls. The stub accepts every API key.
const benchKey = "sandbox_live_0123456789abcdefghijklmnop"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // only main may end the process
	}
}

// run runs the benchmark. If the first argument is [peerRole], it instead runs the peer, which is the facade that easel
// is compared with. The benchmark starts the peer by executing its own program file with this argument.
func run(args []string) error {
	if len(args) > 0 && args[0] == peerRole {
		return runPeer(args[1:])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := &bench{}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&b.easel, "easel", "bin/easel", "the program to measure")
	flags.IntVar(&b.repeats, "repeats", 5, "number of times that each facade is measured")
	flags.Float64Var(&b.scale, "scale", 1, "share of each row's full load; figures with a share below 1 are not comparable")
	flags.BoolVar(&b.counts, "counts", false, "run the short form: measure only counts, three times, with a fifth of the load; fail if a limit is missed")
	flags.Usage = func() {
		_, _ = fmt.Fprintf(flags.Output(), "usage: bench [flags] [row ...]\n\nRows: %s. Default: all rows.\n\n", strings.Join(rowNames(), " "))
		flags.PrintDefaults()
	}
	_ = flags.Parse(args) // exits on error
	chosen, err := chooseRows(flags.Args())
	if err != nil {
		return err
	}
	if b.counts {
		b.repeats, b.scale = 3, 0.2
		chosen = slices.DeleteFunc(chosen, func(r row) bool { return !r.counted })
	}
	if err := b.readVersion(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "easel-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.copyPrograms(); err != nil {
		return err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+benchKey)
	return b.measureRows(ctx, os.Stdout, chosen)
}

// bench is one run of the benchmark.
type bench struct {
	easel   string
	peer    string // path of this program, which the benchmark also starts as the peer
	version string // output of the command 'easel version'
	dir     string // temporary directory for logs and copies of the programs
	repeats int
	scale   float64
	counts  bool // whether to measure only counts and sizes, which takes less time
}

// readVersion reads the version of easel.
func (b *bench) readVersion() error {
	version, err := exec.Command(b.easel, "version").Output()
	if err != nil {
		return fmt.Errorf("%s: %w; run make build", b.easel, err)
	}
	b.version = strings.TrimSpace(string(version))
	return nil
}

// copyPrograms copies both programs in the same way, and sets b.easel and b.peer to the paths of the copies. The
// copies make resident memory comparable. Resident memory depends on how the file of a program was written, because
// the kernel also maps pages that the program has not touched, and a linker writes a file differently each time.
// Without the copies, the peer's resident memory varied between 30 and 39 MB, and easel's between 52 and 63 MB.
func (b *bench) copyPrograms() (err error) {
	if b.peer, err = os.Executable(); err != nil {
		return err
	}
	for name, program := range map[string]*string{"easel": &b.easel, "peer": &b.peer} {
		path := filepath.Join(b.dir, name)
		if err := copyProgram(path, *program); err != nil {
			return err
		}
		*program = path
	}
	return nil
}

func copyProgram(to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// scaledLoad multiplies a number of watches or orders by the scale. It returns at least 1.
func (b *bench) scaledLoad(n int) int { return max(1, int(float64(n)*b.scale)) }

// scaledDuration multiplies the length of a measurement by the scale.
func (b *bench) scaledDuration(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.scale)
}
