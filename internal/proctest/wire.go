package proctest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Wire is a TCP proxy in front of a server. It can cut connections or freeze them. A frozen connection stays open, but
// the proxy drops all bytes on it.
type Wire struct {
	Address string
	CutAt   atomic.Int64 // number of bytes to a client after which the proxy cuts the connection and resets CutAt to zero; zero means never
	Cuts    atomic.Int64 // number of connections that were cut because of CutAt

	target   string
	listener net.Listener

	mu   sync.Mutex
	dark bool // whether new connections are frozen
	open map[*carried]bool
}

// carried is one connection through a [Wire].
type carried struct {
	client, server net.Conn
	frozen         atomic.Bool
}

// NewWire starts a proxy in front of the server at the address target.
func NewWire(t testing.TB, target string) *Wire {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Address: listener.Addr().String(), target: target, listener: listener, open: map[*carried]bool{}}
	t.Cleanup(func() {
		w.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		for c := range w.open {
			c.cut()
		}
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go w.carry(client)
		}
	}()
	return w
}

// Close stops accepting connections.
func (w *Wire) Close() { _ = w.listener.Close() }

func (w *Wire) carry(client net.Conn) {
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", w.target)
	if err != nil {
		_ = client.Close() // the server is unreachable, so the client is disconnected too
		return
	}
	c := &carried{client: client, server: server}
	w.mu.Lock()
	c.frozen.Store(w.dark)
	w.open[c] = true
	w.mu.Unlock()
	go w.forwardBytes(c, client, server)
	w.forwardBytes(c, server, client)
	c.cut()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
}

// forwardBytes forwards bytes in one direction. If the server closes a frozen connection, forwardBytes does not close
// the client's end, because the client must not notice it.
func (w *Wire) forwardBytes(c *carried, to, from net.Conn) {
	var total int64
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if c.frozen.Load() {
			if err != nil {
				return
			}
			continue
		}
		if _, unsent := to.Write(buffer[:n]); err != nil || unsent != nil {
			c.cut()
			return
		}
		total += int64(n)
		if at := w.CutAt.Load(); to == c.client && at > 0 && total > at && w.CutAt.CompareAndSwap(at, 0) {
			w.Cuts.Add(1)
			c.cut()
		}
	}
}

// Freeze freezes all open connections. It returns the number of connections that were not frozen before.
func (w *Wire) Freeze() (stopped int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		if !c.frozen.Swap(true) {
			stopped++
		}
	}
	return stopped
}

// Darken freezes all open connections. It also freezes new connections until [Wire.Light] is called.
func (w *Wire) Darken() {
	w.mu.Lock()
	w.dark = true
	w.mu.Unlock()
	w.Freeze()
}

// Light allows new connections to carry bytes again. Frozen connections stay frozen.
func (w *Wire) Light() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dark = false
}

// HasFrozen reports whether any frozen connection is still open.
func (w *Wire) HasFrozen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		if c.frozen.Load() {
			return true
		}
	}
	return false
}

func (c *carried) cut() {
	_ = c.client.Close() // either end may be closed already
	_ = c.server.Close()
}
