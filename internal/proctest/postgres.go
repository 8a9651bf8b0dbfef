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

	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
)

// Postgres is a PostgreSQL of the tests' own, on a port of loopback. The user postgres needs no password,
// everybody else does.
type Postgres struct {
	address  string
	dir      string
	settings []string
	command  func(program string, args ...string) *exec.Cmd
	server   *exec.Cmd
	ended    chan struct{} // closed when the server has ended

	pooler     string // its address, where one stands in front of the server
	stopPooler func()
}

// postgresSwitch is the environment variable that lets tests use PostgreSQL. It has the value "default", or a list of
// variants. If it is unset, these tests are skipped, with PostgreSQL on this machine or without.
const postgresSwitch = "EASEL_TEST_POSTGRES"

var variants = strings.Split(os.Getenv(postgresSwitch), ",")

// The variants.
const (
	collated     = "icu"          // orders texts as people do, and not by their bytes
	serializable = "serializable" // has that isolation where nobody asks for another
	synced       = "fsync"        // waits for the disk
	pooled       = "pooled"       // is behind PgBouncer in transaction mode
)

func isVariant(name string) bool { return slices.Contains(variants, name) }

var (
	startCluster  = sync.OnceValues(newForgetful)
	clusterInUse  atomic.Bool
	databaseCount atomic.Int64
)

// stopCluster stops the cluster of all tests, if there is one.
func stopCluster() {
	if !clusterInUse.Load() {
		return
	}
	if p, err := startCluster(); err == nil {
		p.Remove()
	}
}

// Database gives the URL of an empty database of PostgreSQL, for tests that [Main] runs.
func Database(t testing.TB) string {
	t.Helper()
	p := orSkip(t, func() (*Postgres, error) { clusterInUse.Store(true); return startCluster() })
	return p.Database(t)
}

// OnEach runs a test on an empty ledger of each database, in parallel.
func OnEach(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for name, url := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "the ledger?.db") },
		"PostgreSQL": func(t *testing.T) string { return Database(t) },
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, url(t)) })
	}
}

// StartPostgres starts a PostgreSQL that a test has to itself, and that it may kill. It is stopped at the end of
// the test.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	p := orSkip(t, newForgetful)
	t.Cleanup(p.Remove)
	return p
}

// StartPostgresWith is [StartPostgres] of one that waits for the disk, with some settings.
func StartPostgresWith(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	p := orSkip(t, func() (*Postgres, error) { return NewPostgres(settings...) })
	t.Cleanup(p.Remove)
	return p
}

func orSkip(t testing.TB, start func() (*Postgres, error)) *Postgres {
	t.Helper()
	if os.Getenv(postgresSwitch) == "" {
		t.Skip(postgresSwitch + " is unset: make test-race and make test-system run this test on PostgreSQL")
	}
	p, err := start()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("PostgreSQL is not installed: install postgresql")
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Database makes an empty database, and gives its URL.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	url, err := p.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// Create is [Postgres.Database] for programs.
func (p *Postgres) Create(ctx context.Context) (url string, err error) {
	name := fmt.Sprintf("test%d", databaseCount.Add(1))
	db, err := sql.Open("pgx", p.url("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+name)
	if p.pooler != "" {
		return p.pooled(name), err
	}
	return p.url(name), err
}

// Address is where it listens.
func (p *Postgres) Address() string { return p.address }

// Dump gives all that a database has, as SQL.
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

// newForgetful does not wait for the disk: a test outlives its processes, and not the machine.
func newForgetful() (*Postgres, error) {
	settings := []string{"max_connections=200", "autovacuum=off"} // whose workers would keep deleted rows in the databases that are measured
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

// NewPostgres makes one in a temporary directory, with some settings, and starts it. Where PostgreSQL is not on this machine the
// error is [exec.ErrNotFound].
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
	who, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	p := &Postgres{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir, settings: settings, command: func(program string, args ...string) *exec.Cmd {
		if !filepath.IsAbs(program) {
			program = filepath.Join(bin, program)
		}
		command := exec.Command(program, args...) //nolint:noctx // Remove ends it
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

// Start starts it where it was killed, and waits until it takes connections. What a killed one has left
// behind ends by itself, and keeps a new one from starting until then.
func (p *Postgres) Start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if !p.runs() {
			err = p.launch()
		}
		if err == nil {
			err = p.ping(ctx)
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
	args := []string{"-D", filepath.Join(p.dir, "data"), "-k", p.dir, "-h", host, "-p", port}
	for _, setting := range p.settings {
		args = append(args, "-c", setting)
	}
	server := p.command("postgres", args...)
	ended, err := startUntilKilled(server)
	if err == nil {
		p.server, p.ended = server, ended
	}
	return err
}

// startUntilKilled starts a program; ended is closed when it has ended. Pdeathsig is sent when the thread ends that has started
// the program, and not this process alone.
func startUntilKilled(program *exec.Cmd) (ended chan struct{}, err error) {
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := program.Start()
		started <- err
		if err == nil {
			_ = program.Wait() // it is killed
		}
	}()
	return ended, <-started
}

// ping waits until it takes connections, or has ended.
func (p *Postgres) ping(ctx context.Context) error {
	db, err := sql.Open("pgx", p.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for err = db.PingContext(ctx); err != nil && ctx.Err() == nil && p.runs(); err = db.PingContext(ctx) {
	}
	return err
}

// Kill kills the server by SIGKILL, and waits until it is gone. Its other processes find out by themselves.
func (p *Postgres) Kill() { p.end(syscall.SIGKILL) }

func (p *Postgres) end(signal syscall.Signal) {
	if p.runs() {
		_ = p.server.Process.Signal(signal) // it may have ended
		<-p.ended
	}
}

// Remove stops it, and removes its files.
func (p *Postgres) Remove() {
	if p.stopPooler != nil {
		p.stopPooler()
	}
	p.end(syscall.SIGQUIT)
	_ = os.RemoveAll(p.dir)
}

// postgresBin is where PostgreSQL's programs are: Debian keeps them out of the PATH.
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

// unprivileged gives a directory to somebody who is not root, as PostgreSQL refuses to run as root.
func unprivileged(dir string) (*syscall.Credential, error) {
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
