package proctest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
)

// Postgres is a PostgreSQL server for tests, on a loopback port. The user postgres needs no password; all other users
// do.
type Postgres struct {
	address  string
	dir      string
	settings []string
	command  func(program string, args ...string) *exec.Cmd
	server   *exec.Cmd
	ended    chan struct{} // closed when the server has exited

	pooler     string // address of PgBouncer; empty if it is not running
	stopPooler func()
}

// postgresSwitch is the environment variable that enables tests with PostgreSQL. Its value is "default" or a
// comma-separated list of variants. If it is unset, these tests are skipped, even if PostgreSQL is installed.
const postgresSwitch = "EASEL_TEST_POSTGRES"

var variants = strings.Split(os.Getenv(postgresSwitch), ",")

// Variants of the PostgreSQL servers for tests.
const (
	collated     = "icu"          // strings are sorted by the rules of a language, not by their bytes
	serializable = "serializable" // transactions are serializable by default
	synced       = "fsync"        // commits wait until the data is on disk
	pooled       = "pooled"       // clients connect through PgBouncer in transaction mode
)

func isVariant(name string) bool { return slices.Contains(variants, name) }

var (
	startCluster  = sync.OnceValues(newForgetful)
	clusterInUse  atomic.Bool
	databaseCount atomic.Int64
)

// stopCluster stops the server that all tests share, if it is running.
func stopCluster() {
	if !clusterInUse.Load() {
		return
	}
	if p, err := startCluster(); err == nil {
		p.Remove()
	}
}

// Database returns the URL of a new, empty PostgreSQL database on the server that all tests of a package share. The
// package's TestMain must call [Main].
func Database(t testing.TB) string {
	t.Helper()
	p := orSkip(t, func() (*Postgres, error) { clusterInUse.Store(true); return startCluster() })
	return p.Database(t)
}

// OnEach runs a test on SQLite and on PostgreSQL, in parallel. url is the URL of an empty database, in which the test
// can create a ledger.
func OnEach(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for name, url := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "the ledger?.db") },
		"PostgreSQL": func(t *testing.T) string { return Database(t) },
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, url(t)) })
	}
}

// StartPostgres starts a PostgreSQL server that only this test uses, so that the test may kill it. The server stops at
// the end of the test.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	p := orSkip(t, newForgetful)
	t.Cleanup(p.Remove)
	return p
}

func orSkip(t testing.TB, start func() (*Postgres, error)) *Postgres {
	t.Helper()
	if os.Getenv(postgresSwitch) == "" {
		t.Skip(postgresSwitch + " is unset: to run this test on PostgreSQL, use make test-race or make test-system")
	}
	p, err := start()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("PostgreSQL is not installed: install the package postgresql")
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Database creates an empty database, and returns its URL. If this fails, it tries twice more, because the server closes all
// connections if one of its processes crashes, for example when the machine is out of memory.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	for attempt := 1; ; attempt++ {
		url, err := p.Create(t.Context())
		if err == nil {
			return url
		}
		t.Logf("create a database: %v; the log of PostgreSQL ends with:\n%s", err, p.lastLogLines())
		if attempt == 3 || !p.waitUntilReady(t.Context()) {
			t.FailNow()
		}
	}
}

// waitUntilReady waits until the server accepts connections, for at most a minute, and reports whether it does.
func (p *Postgres) waitUntilReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.awaitConnection(ctx) == nil
}

// lastLogLines returns the last lines of the server's log.
func (p *Postgres) lastLogLines() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

func (p *Postgres) logFile() string { return filepath.Join(p.dir, "server.log") }

// Create creates an empty database and returns its URL. Unlike [Postgres.Database], it can be called without a test.
func (p *Postgres) Create(ctx context.Context) (url string, err error) {
	name := fmt.Sprintf("test%d", databaseCount.Add(1))
	db, err := sql.Open("pgx", p.url("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+name)
	if p.pooler != "" {
		return p.pooledURL(name), err
	}
	return p.url(name), err
}

// Address returns the address on which the server listens.
func (p *Postgres) Address() string { return p.address }

// Dump returns the complete content of a database as SQL.
func (p *Postgres) Dump(t testing.TB, url string) []byte {
	t.Helper()
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.command(program, url).Output()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (p *Postgres) url(database string) string {
	return "postgres://postgres@" + p.address + "/" + database + "?sslmode=disable"
}

// newForgetful starts a PostgreSQL server with the settings of the enabled variants. It turns fsync off unless the
// fsync variant is enabled, because test data need not survive a crash of the machine.
func newForgetful() (*Postgres, error) {
	settings := []string{"max_connections=200", "autovacuum=off"} // autovacuum would distort measurements
	if !isVariant(synced) {
		settings = append(settings, "fsync=off")
	}
	if isVariant(serializable) {
		settings = append(settings, "default_transaction_isolation=serializable")
	}
	p, err := NewPostgres(settings...)
	if err == nil && isVariant(pooled) {
		err = p.startPooler()
	}
	return p, err
}

// NewPostgres starts a server in a new temporary directory. If PostgreSQL is not installed, the error is
// [exec.ErrNotFound].
func NewPostgres(settings ...string) (*Postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "easel-postgres-")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	who, err := unprivilegedUser(dir)
	if err != nil {
		return nil, err
	}
	p := &Postgres{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir, settings: settings, command: func(program string, args ...string) *exec.Cmd {
		if !filepath.IsAbs(program) {
			program = filepath.Join(bin, program)
		}
		command := exec.Command(program, args...) //nolint:noctx // no context is needed, because Remove stops the server
		command.Dir, command.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGQUIT}
		return command
	}}
	if err := errors.Join(p.initialize(), p.Start()); err != nil {
		p.Remove()
		return nil, err
	}
	return p, nil
}

func (p *Postgres) initialize() error {
	data := filepath.Join(p.dir, "data")
	locale := map[bool][]string{false: {"--no-locale"}, true: {"--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"}}
	if out, err := p.command("initdb", slices.Concat([]string{"-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"}, locale[isVariant(collated)])...).CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	access := "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	return os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(access), 0o600)
}

// Start starts the server if it is not running, and waits until it accepts connections. After [Postgres.Kill], a new
// server cannot start until the child processes of the killed server have exited, so Start retries for up to a minute.
func (p *Postgres) Start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if !p.runs() {
			err = p.launch()
		}
		if err == nil {
			err = p.awaitConnection(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (p *Postgres) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.server != nil
	}
}

func (p *Postgres) launch() error {
	host, port, _ := net.SplitHostPort(p.address)
	args := []string{"-D", filepath.Join(p.dir, "data"), "-k", p.dir, "-h", host, "-p", port, "-c", "log_min_messages=log"} // errors of statements are not logged
	for _, setting := range p.settings {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	server := p.command("postgres", args...)
	server.Stderr = log
	ended, err := startUntilKilled(server)
	if err == nil {
		p.server, p.ended = server, ended
	}
	return err
}

// startUntilKilled starts a program, and returns a channel that is closed when the program has exited. Until then, it
// keeps alive the thread that started the program. If that thread exited, the kernel would send Pdeathsig to the program,
// even though this process continues.
func startUntilKilled(program *exec.Cmd) (ended chan struct{}, err error) {
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := program.Start()
		started <- err
		if err == nil {
			_ = program.Wait() // usually returns an error, because the program is killed
		}
	}()
	return ended, <-started
}

// awaitConnection waits until the server accepts connections or has exited.
func (p *Postgres) awaitConnection(ctx context.Context) error {
	db, err := sql.Open("pgx", p.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for err = db.PingContext(ctx); err != nil && ctx.Err() == nil && p.runs(); err = db.PingContext(ctx) {
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Kill kills the server, and waits until it has exited. The server's child processes exit on their own soon afterwards.
func (p *Postgres) Kill() { p.end(syscall.SIGKILL) }

func (p *Postgres) end(signal syscall.Signal) {
	if p.runs() {
		_ = p.server.Process.Signal(signal) // the process may have exited
		<-p.ended
	}
}

// Remove stops the server and deletes its files.
func (p *Postgres) Remove() {
	if p.stopPooler != nil {
		p.stopPooler()
	}
	p.end(syscall.SIGQUIT)
	_ = os.RemoveAll(p.dir)
}

// postgresBin returns the directory with PostgreSQL's programs. On Debian, this directory is not in PATH.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.Join(err, exec.ErrNotFound)
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func freePort() (int, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// unprivilegedUser returns the credential with which PostgreSQL must run, or nil for the credential of this process.
// PostgreSQL refuses to run as root. So if this process runs as root, unprivilegedUser chooses another user, and makes that
// user the owner of dir.
func unprivilegedUser(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	name := "postgres"
	who, err := user.Lookup(name)
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}
