package main

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/easel-grpc/easel/internal/cli"
	"go.uber.org/goleak"
)

// asProgram in the environment makes the binary of these tests run as the program itself, so that no other binary is built.
const asProgram = "RUN_AS_PROGRAM=1"

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asProgram) {
		main()
	}
	goleak.VerifyTestMain(m)
}

const (
	exitOK               = cli.ExitOK
	exitFailure          = cli.ExitFailure
	exitUsage            = cli.ExitUsage
	exitNotFound         = cli.ExitNotFound
	exitMoney            = cli.ExitMoney
	exitCredential       = cli.ExitCredential
	exitRetry            = cli.ExitRetry
	exitGenerationFailed = cli.ExitGenerationFailed
	exitInterrupted      = cli.ExitInterrupted
)

// printed is the output of a run of the command.
type printed struct {
	exit   int
	stdout string
	stderr string
}

// linesOf returns the lines of the output of a stream.
func linesOf(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// easel runs the command over dial, with an empty environment.
func easel(ctx context.Context, dial func(context.Context, string) (net.Conn, error), args ...string) printed {
	return easelEnv(ctx, dial, nil, args...)
}

func easelEnv(ctx context.Context, dial func(context.Context, string) (net.Conn, error), env map[string]string, args ...string) printed {
	stdout, stderr := newBuffer(), newBuffer()
	exit := cli.Run(ctx, args, &cli.Program{
		Grammar: grammar(), Build: thisBuild(),
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Dial: dial,
		Lookup: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		},
		Environ: environOf(env),
	})
	return printed{exit, stdout.String(), stderr.String()}
}

// environOf returns an environment in the format of a process.
func environOf(env map[string]string) func() []string {
	return func() (all []string) {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			all = append(all, name+"="+env[name])
		}
		return all
	}
}

// buffer is a stream that can be read during writes, and that notifies its readers.
type buffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func newBuffer() *buffer { return &buffer{written: make(chan struct{}, 1)} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.written <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
