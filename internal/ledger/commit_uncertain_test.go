package ledger_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// If the response to a commit is lost, the ledger does not know whether the order was written. It must not repeat the
// commit, and it must not return an error that means that nothing was written.
func TestCommitWithLostResponseIsReportedAsUncertain(t *testing.T) {
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			at := proctest.Database(t)
			relay := newRelay(t, at, io.Discard)
			l := open(t, relay.url(t, mode))
			if _, _, err := l.Call(t.Context(), request("before")); err != nil {
				t.Fatal(err)
			}
			relay.cuts.Store(true)
			_, _, err := l.Write(t.Context(), request("k"))
			if _, doubt := errors.AsType[*ledger.Doubt](err); !doubt || relay.commits.Load() != 1 {
				t.Errorf("got %d commits and the error %v, want 1 commit and a *ledger.Doubt", relay.commits.Load(), err)
			}
			relay.cuts.Store(false)
			if o, step := call(t, open(t, at), request("k")); o.Leases != 1 || step.Action != lifecycle.Wait {
				t.Errorf("the order has %d leases, and the step for the next caller is %+v", o.Leases, step)
			}
		})
	}
}

// relay is a proxy in front of a database. While cuts is set, it does not forward the response to a commit, but
// closes the connection instead.
type relay struct {
	net.Listener
	database *url.URL
	cuts     atomic.Bool
	commits  atomic.Int64
	requests io.Writer // receives a copy of the messages that clients send to the database
}

func newRelay(t *testing.T, database string, requests io.Writer) *relay {
	t.Helper()
	to, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r := &relay{Listener: listener, database: to, requests: requests}
	go func() {
		for from, err := r.Accept(); err == nil; from, err = r.Accept() {
			go r.pass(from)
		}
	}()
	return r
}

// url returns the database's URL with the address of the relay. mode is the driver's query execution mode.
func (r *relay) url(t *testing.T, mode string) string {
	t.Helper()
	at := *r.database
	at.Host = r.Addr().String()
	query := at.Query()
	query.Set("default_query_exec_mode", mode)
	at.RawQuery = query.Encode()
	return at.String()
}

func (r *relay) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", r.database.Host)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() {
		_, _ = io.Copy(to, io.TeeReader(from, r.requests))
		_ = to.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := to.Read(buffer)
		committed := bytes.Contains(buffer[:n], []byte("COMMIT\x00"))
		if committed && r.cuts.Load() {
			r.commits.Add(1)
			return
		}
		if _, failed := from.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}
