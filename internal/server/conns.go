package server

import (
	"log/slog"
	"net"
	"sync"
)

// roomyListener bounds the connections of a listener. One too many is closed at once:
// left in the kernel's queue it would wait in silence, for as long as others stay.
type roomyListener struct {
	net.Listener
	room   chan struct{}
	logger *slog.Logger
	full   bool // the last connection was closed, and that has been logged
}

// roomy bounds the connections of one of the two listeners that callers reach.
func roomy(l net.Listener, room chan struct{}, logger *slog.Logger) net.Listener {
	return &roomyListener{Listener: l, room: room, logger: logger}
}

// Accept implements net.Listener. One goroutine calls it.
func (l *roomyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.room <- struct{}{}:
			l.full = false
			return &countedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.room })}, nil
		default:
			l.refused()
			_ = conn.Close() // nothing has been said on it
		}
	}
}

func (l *roomyListener) refused() {
	if !l.full {
		l.logger.Warn("connections are closed at once, as there are too many", "addr", l.Addr().String(), "limit", cap(l.room))
	}
	l.full = true
}

// countedConn gives its room back when it is closed, however often that is.
type countedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
