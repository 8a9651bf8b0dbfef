package main

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/proctest"
	"go.uber.org/goleak"
)

// asProgram is an environment entry. If it is set, the test binary runs as easel, so that tests need no other binary.
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

// printed is the exit code and the output of a command.
type printed struct {
	exit   int
	stdout string
	stderr string
}

// linesOf splits a command's output into lines.
func linesOf(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// easel runs a command with an empty environment. The command connects to the server with dial.
func easel(ctx context.Context, dial func(context.Context, string) (net.Conn, error), args ...string) printed {
	return easelEnv(ctx, dial, nil, args...)
}

func easelEnv(ctx context.Context, dial func(context.Context, string) (net.Conn, error), env map[string]string, args ...string) printed {
	stdout, stderr := proctest.NewOutput(), proctest.NewOutput()
	exit := cli.Run(ctx, args, &cli.Program{
		Grammar: grammar(), Build: thisBuild(),
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Dial: dial,
		Lookup: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		},
		Environ: func() []string { return proctest.Environ(env) },
	})
	return printed{exit, stdout.String(), stderr.String()}
}
