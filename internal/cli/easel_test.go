package cli

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// easelRun runs the command in args with an empty environment. The command connects to the server
// through dial.
func easelRun(ctx context.Context, dial dialer, args ...string) printed {
	return easelEnv(ctx, dial, nil, args...)
}

func easelEnv(ctx context.Context, dial dialer, env map[string]string, args ...string) printed {
	stdout, stderr := proctest.NewOutput(), proctest.NewOutput()
	exit := Run(ctx, args, &Program{
		Grammar: grammar(),
		Stdin:   strings.NewReader(""), Stdout: stdout, Stderr: stderr, Dial: dial,
		Lookup: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		},
		Environ: func() []string { return proctest.Environ(env) },
	})
	return printed{exit, stdout.String(), stderr.String()}
}

// grammar returns the grammar of the client commands.
func grammar() Grammar {
	return Grammar{Commands: func() any {
		return &struct {
			Health Health `cmd:""`
			Events struct {
				Follow FollowEvents `cmd:""`
			} `cmd:""`
			Commands
		}{}
	}}
}
