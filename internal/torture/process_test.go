//go:build unix

package torture

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(proctest.Main(m))
}

// key is the API key for all orders. It exists only in the test's sandbox.
const key = "sandbox_live_torture"

// process is a running instance of the program.
type process struct {
	*proctest.Process
	grpc, http, admin string // addresses; a catalog has only the HTTP address
	killed            atomic.Bool
}

// kill sends SIGKILL and waits until the process has exited. It reports whether this is the first call of kill.
func (p *process) kill() bool {
	first := !p.killed.Swap(true)
	p.Kill()
	return first
}

// pauseProcess stops the process for the given time, and then continues it.
func (p *process) pauseProcess(d time.Duration) {
	_ = p.Signal(syscall.SIGSTOP) // has no effect if the process has exited
	select {
	case <-time.After(d):
	case <-p.Exited():
	}
	_ = p.Signal(syscall.SIGCONT)
}

// tail returns the end of the process's output, for failure messages.
func (p *process) tail() string {
	text := p.Output.String()
	return text[max(0, len(text)-4096):]
}

// start starts the program with exactly the given environment. It waits until the output matches each pattern, and
// stores the text that matched.
func start(t *testing.T, env, words []string, patterns map[string]func(p *process) *string) (*process, error) {
	p := &process{Process: proctest.Start(t, env, append([]string{proctest.Easel(t)}, words...)...)}
	for pattern, set := range patterns {
		text, err := p.Await(0, pattern, 30*time.Second)
		if err != nil {
			p.kill()
			return nil, err
		}
		*set(p) = text
	}
	return p, nil
}

// launchCatalog starts a sandbox whose database is a file.
func launchCatalog(t *testing.T, file string, args ...string) (*process, error) {
	words := append([]string{"sandbox", "--addr", "127.0.0.1:0", "--db", file, "--key", key, "--balance", "1000000.00", "--admin"}, args...)
	return start(t, nil, words, map[string]func(p *process) *string{
		`http://([\d.:]+)/api/[\s\S]*Ctrl-C`: func(p *process) *string { return &p.http },
	})
}

// launchFacade starts a facade for the catalog at the given address.
func launchFacade(t *testing.T, upstream string, env ...string) (*process, error) {
	env = append([]string{
		"EASEL_UPSTREAM_URL=http://" + upstream + "/api/v1/api/catalog",
		"EASEL_GRPC_ADDR=127.0.0.1:0", "EASEL_HTTP_ADDR=127.0.0.1:0", "EASEL_ADMIN_ADDR=127.0.0.1:0",
	}, env...)
	return start(t, env, []string{"serve"}, map[string]func(p *process) *string{
		`"server":"grpc","addr":"([^"]+)"`:  func(p *process) *string { return &p.grpc },
		`"server":"http","addr":"([^"]+)"`:  func(p *process) *string { return &p.http },
		`"server":"admin","addr":"([^"]+)"`: func(p *process) *string { return &p.admin },
	})
}

func startCatalog(t *testing.T, file string, args ...string) *process {
	t.Helper()
	p, err := launchCatalog(t, file, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func startFacade(t *testing.T, upstream string, env ...string) *process {
	t.Helper()
	p, err := launchFacade(t, upstream, env...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dial returns a connection to the facade.
func dial(t *testing.T, facade *process) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(facade.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// bearing returns a context whose calls carry the token.
func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// writeFile writes a file that only the current user can read, and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(40 * time.Second)
	for !is() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
