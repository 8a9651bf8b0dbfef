package cli

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/easel-grpc/easel/internal/terminal"
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

// easelRun runs a command with an empty environment. dial connects to the server.
func easelRun(ctx context.Context, dial dialer, args ...string) printed {
	return easelEnv(ctx, dial, nil, args...)
}

func easelEnv(ctx context.Context, dial dialer, env map[string]string, args ...string) printed {
	stdout, stderr := newBuffer(), newBuffer()
	exit := Run(ctx, args, &Program{
		Grammar: grammar(),
		Stdin:   strings.NewReader(""), Stdout: stdout, Stderr: stderr, Dial: dial,
		Lookup: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		},
		Environ: environOf(env),
	})
	return printed{exit, stdout.String(), stderr.String()}
}

// environOf returns a function that lists an environment like [os.Environ].
func environOf(env map[string]string) func() []string {
	return func() (all []string) {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			all = append(all, name+"="+env[name])
		}
		return all
	}
}

// buffer collects output that several goroutines can write concurrently.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func newBuffer() *buffer { return &buffer{} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
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

// write writes text to a temporary file and returns the path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onTerminal returns a console whose standard output and standard error are the same simulated terminal. It also
// returns the text on the screen.
func onTerminal(look terminal.Style) (*terminal.Console, *bytes.Buffer) {
	var screen bytes.Buffer
	c := terminal.NewConsole(&screen, &screen, func(string) string { return "" })
	c.OutStyle, c.ErrStyle = look, look
	return c, &screen
}
