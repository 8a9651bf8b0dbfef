package proctest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// poolerSettings are those of a pooler that hands each connection to another session after a transaction: a session gets
// no notification through it, and keeps no setting.
const poolerSettings = `[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
ignore_startup_parameters = lock_timeout,statement_timeout,idle_in_transaction_session_timeout,tcp_user_timeout,default_transaction_isolation,extra_float_digits
`

// Pool starts PgBouncer in transaction mode in front of a server, and gives the URL of a database through it. It is
// stopped at the end of the test.
func (p *Postgres) Pool(t testing.TB, database string) (url string) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // which is not in the PATH of everybody
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("PgBouncer is not on this machine: install pgbouncer")
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	host, behind, _ := net.SplitHostPort(p.address)
	settings := filepath.Join(p.dir, fmt.Sprintf("pooler%d.ini", port))
	if err := os.WriteFile(settings, fmt.Appendf(nil, poolerSettings, host, behind, port), 0o644); err != nil { //nolint:gosec // there is no secret in it, and another user reads it
		t.Fatal(err)
	}
	p.pool(t, program, settings)
	url = "postgres://postgres@" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + "/" + database + "?sslmode=disable&default_query_exec_mode=exec"
	awaitDatabase(t, url)
	return url
}

// pool runs a pooler until the end of the test.
func (p *Postgres) pool(t testing.TB, program string, settings string) {
	t.Helper()
	pooler := p.command(program, "-q", settings)
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // see launch
		defer runtime.UnlockOSThread()
		err := pooler.Start()
		started <- err
		if err == nil {
			_ = pooler.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pooler.Process.Kill(); <-ended })
}

// awaitDatabase waits until a database answers.
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
