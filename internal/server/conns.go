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
	release  func()
	read     atomic.Int64 // bytes
	settled  atomic.Int64 // of them, those of messages that are not being received any more
	arriving atomic.Int64 // messages that are being received
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

// arrive begins to receive a message.
func (c *countedConn) arrive() { c.arriving.Add(1) }

// share is about how much of a message has come that is being received: all such messages of the
// connection together are what was read and is not settled.
func (c *countedConn) share() int {
	return int(max(0, c.read.Load()-c.settled.Load()) / max(1, c.arriving.Load()))
}

// settle ends the receiving of a message of so many bytes.
func (c *countedConn) settle(bytes int) {
	c.settled.Add(int64(bytes))
	if c.arriving.Add(-1) == 0 {
		c.settled.Store(c.read.Load()) // headers and the like too
	}
}
