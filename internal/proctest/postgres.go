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
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
)

// cluster is a PostgreSQL of the tests' own, on a port of loopback. The user postgres needs no password,
// everybody else does.
type cluster struct {
	address string
	stop    func()
}

var (
	startCluster  = sync.OnceValues(newCluster)
	clusterInUse  atomic.Bool
	databaseCount atomic.Int64
)

// stopCluster stops the cluster, if there is one.
func stopCluster() {
	if !clusterInUse.Load() {
		return
	}
	if c, err := startCluster(); err == nil {
		c.stop()
	}
}

// Database gives the URL of an empty database of PostgreSQL, for tests that [Main] runs.
func Database(t testing.TB) string {
	t.Helper()
	clusterInUse.Store(true)
	c, err := startCluster()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("PostgreSQL is not on this machine: install postgresql")
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test%d", databaseCount.Add(1))
	db, err := sql.Open("pgx", c.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return c.url(name)
}

func (c cluster) url(database string) string {
	return "postgres://postgres@" + c.address + "/" + database + "?sslmode=disable"
}

// newCluster makes and starts a cluster in a temporary directory.
func newCluster() (c cluster, err error) {
	bin, err := postgresBin()
	if err != nil {
		return c, err
	}
	dir, err := os.MkdirTemp("", "easel-postgres-")
	if err != nil {
		return c, err
	}
	port, err := freePort()
	if err != nil {
		return c, err
	}
	who, err := unprivileged(dir)
	if err != nil {
		return c, err
	}
	run := func(name string, args ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(bin, name), args...)
		command.Dir, command.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGQUIT}
		return command
	}
	data := filepath.Join(dir, "data")
	if out, err := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8").CombinedOutput(); err != nil {
		return c, fmt.Errorf("initdb: %w: %s", err, out)
	}
	access := "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(access), 0o600); err != nil {
		return c, err
	}
	server := run("postgres", "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-c", "fsync=off", "-c", "max_connections=200")
	if err := server.Start(); err != nil {
		return c, err
	}
	c = cluster{net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
		_ = os.RemoveAll(dir)
	}}
	return c, c.answers()
}

// answers waits until the cluster takes connections.
func (c cluster) answers() error {
	db, err := sql.Open("pgx", c.url("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if err = db.PingContext(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
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
