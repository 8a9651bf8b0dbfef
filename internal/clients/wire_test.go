package clients

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// wire is a proxy between one client and the server. It can interrupt and freeze connections.
type wire struct {
	addr     string
	target   string
	listener net.Listener

	cutAt atomic.Int64 // number of bytes to the client after which a connection is cut once; zero means never
	cuts  atomic.Int64 // number of connections that were cut

	mu    sync.Mutex
	conns []*carried
}

// carried is one connection through the wire.
type carried struct {
	client, server net.Conn
	frozen         chan struct{} // closed when the connection stops carrying data
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: listener.Addr().String(), target: target, listener: listener}
	t.Cleanup(func() {
		_ = listener.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.conns {
			c.cut()
		}
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.carry(conn)
		}
	}()
	return w
}

func (w *wire) carry(client net.Conn) {
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", w.target)
	if err != nil {
		_ = client.Close() // the server is down
		return
	}
	c := &carried{client: client, server: server, frozen: make(chan struct{})}
	w.mu.Lock()
	w.conns = append(w.conns, c)
	w.mu.Unlock()
	go w.pass(c, server, client, func(int64) {})
	go w.pass(c, client, server, func(total int64) {
		if at := w.cutAt.Load(); at > 0 && total > at && w.cutAt.CompareAndSwap(at, 0) {
			w.cuts.Add(1)
			c.cut()
		}
	})
}

func (w *wire) pass(c *carried, to, from net.Conn, passed func(total int64)) {
	defer c.cut()
	var total int64
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		select {
		case <-c.frozen:
			_, _ = io.Copy(io.Discard, from) // discards the data
			return
		default:
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
			total += int64(n)
			passed(total)
		}
		if err != nil {
			return
		}
	}
}

// freeze stops the transfer of data on all open connections without closing them. It returns the number of
// connections.
func (w *wire) freeze() (stopped int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		select {
		case <-c.frozen:
		default:
			close(c.frozen)
			stopped++
		}
	}
	return stopped
}

func (c *carried) cut() {
	_ = c.client.Close() // either end may be closed already
	_ = c.server.Close()
}
