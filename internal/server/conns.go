package server

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
)

// limitedListener limits the connections of a listener. One too many is closed at once:
// left in the kernel's queue it would wait in silence, for as long as others stay.
type limitedListener struct {
	net.Listener
	open   chan struct{} // a token for each open connection
	logger *slog.Logger
	full   bool // the last connection was closed, and that has been logged
}

// limitConns limits the connections of one of the two listeners that callers reach.
func limitConns(l net.Listener, open chan struct{}, logger *slog.Logger) net.Listener {
	return &limitedListener{Listener: l, open: open, logger: logger}
}

// Accept implements net.Listener. One goroutine calls it.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.open <- struct{}{}:
			l.full = false
			return &countedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.open })}, nil
		default:
			l.refused()
			_ = conn.Close() // nothing has been said on it
		}
	}
}

func (l *limitedListener) refused() {
	if !l.full {
		l.logger.Warn("connections are closed at once, as there are too many", "addr", l.Addr().String(), "limit", cap(l.open))
	}
	l.full = true
}

// countedConn is counted out when it is closed, however often that is, and counts the bytes that
// arrive on it: the library does not tell how much of a message has come.
type countedConn struct {
	net.Conn
	release   func()
	read      atomic.Int64 // bytes
	ended     atomic.Int64 // of them, bytes of messages that are not being received any more
	receiving atomic.Int64 // messages that are being received
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// RemoteAddr implements net.Conn. The address leads back to the connection: it is what a call
// knows of it.
func (c *countedConn) RemoteAddr() net.Addr { return countedAddr{c.Conn.RemoteAddr(), c} }

type countedAddr struct {
	net.Addr
	conn *countedConn
}

// beginMessage begins to receive a message.
func (c *countedConn) beginMessage() { c.receiving.Add(1) }

// share is about how many bytes have arrived of a message that is being received: the bytes read of all
// such messages of the connection, divided by their number.
func (c *countedConn) share() int {
	return int(max(0, c.read.Load()-c.ended.Load()) / max(1, c.receiving.Load()))
}

// endMessage ends the receiving of a message of so many bytes.
func (c *countedConn) endMessage(bytes int) {
	c.ended.Add(int64(bytes))
	if c.receiving.Add(-1) == 0 {
		c.ended.Store(c.read.Load()) // with headers and the like
	}
}
