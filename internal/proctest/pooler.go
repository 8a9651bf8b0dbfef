package proctest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// poolerSettings is the configuration of PgBouncer in transaction mode. In this mode, each transaction may use a
// different server connection. So clients lose their session settings between transactions, and receive no
// notifications.
const poolerSettings = `[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
server_idle_timeout = 5
ignore_startup_parameters = lock_timeout,statement_timeout,idle_in_transaction_session_timeout,tcp_user_timeout,default_transaction_isolation,extra_float_digits
`

// Pool starts PgBouncer in transaction mode in front of the server, and returns the URL that connects clients to
// the database through PgBouncer. [Postgres.Remove] stops PgBouncer.
func (p *Postgres) Pool(t testing.TB, database string) (url string) {
	t.Helper()
	if err := p.startPooler(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("PgBouncer is not installed: install the package pgbouncer")
	} else if err != nil {
		t.Fatal(err)
	}
	url = p.pooledURL(database)
	awaitDatabase(t, url)
	return url
}

// pooledURL returns the URL that connects to a database through PgBouncer.
func (p *Postgres) pooledURL(database string) string {
	return "postgres://postgres@" + p.pooler + "/" + database + "?sslmode=disable&default_query_exec_mode=exec"
}

// startPooler starts PgBouncer in front of the server. If PgBouncer is not installed, the error is [exec.ErrNotFound].
func (p *Postgres) startPooler() error {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // /usr/sbin is often missing from PATH
	}
	if _, err := os.Stat(program); err != nil {
		return exec.ErrNotFound
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	host, behind, _ := net.SplitHostPort(p.address)
	settings := filepath.Join(p.dir, "pooler.ini")
	if err := os.WriteFile(settings, fmt.Appendf(nil, poolerSettings, host, behind, port), 0o644); err != nil { //nolint:gosec // the file contains no secret, and PgBouncer may run as another user
		return err
	}
	pooler := p.command(program, "-q", settings)
	ended, err := startUntilKilled(pooler)
	if err != nil {
		return err
	}
	p.pooler, p.stopPooler = net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), func() { _ = pooler.Process.Kill(); <-ended }
	return nil
}

// awaitDatabase waits until a database responds, and fails the test if it does not respond in time.
func awaitDatabase(t testing.TB, url string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for err = db.PingContext(ctx); err != nil && ctx.Err() == nil; err = db.PingContext(ctx) {
	}
	if err != nil {
		t.Fatal(err)
	}
}
