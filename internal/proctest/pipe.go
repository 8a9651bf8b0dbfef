package proctest

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// Pipe is an in-memory listener for a server in a synctest bubble. Its connections set deadlines one at a time,
// because the race detector of Go 1.26 crashes if two goroutines of a bubble concurrently start timers that have
// already expired. The server in net/http starts such a timer after each request, when it sets a deadline in the
// past.
type Pipe struct{ *bufconn.Listener }

// NewPipe returns a pipe whose connections have buffers of the given size, in bytes.
func NewPipe(size int) *Pipe { return &Pipe{bufconn.Listen(size)} }

// Accept implements [net.Listener].
func (p *Pipe) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return pipeConn{conn}, nil
}

// deadlines is locked while any pipeConn sets a deadline.
var deadlines sync.Mutex

type pipeConn struct{ net.Conn }

// SetDeadline implements [net.Conn].
func (c pipeConn) SetDeadline(t time.Time) error { return setDeadline(c.Conn.SetDeadline, t) }

// SetReadDeadline implements [net.Conn].
func (c pipeConn) SetReadDeadline(t time.Time) error { return setDeadline(c.Conn.SetReadDeadline, t) }

// SetWriteDeadline implements [net.Conn].
func (c pipeConn) SetWriteDeadline(t time.Time) error { return setDeadline(c.Conn.SetWriteDeadline, t) }

func setDeadline(set func(time.Time) error, t time.Time) error {
	deadlines.Lock()
	defer deadlines.Unlock()
	return set(t)
}
