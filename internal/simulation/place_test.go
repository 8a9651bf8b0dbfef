package simulation

import (
	"net"
	"sync"
)

// place is an address. Which process listens there changes.
type place struct {
	mu     sync.Mutex
	server *listener
}

func (p *place) current() *listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

// listen takes the address over.
func (p *place) listen() *listener {
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = l
	return l
}

// listener is a net.Listener in memory.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return here }

var here = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
