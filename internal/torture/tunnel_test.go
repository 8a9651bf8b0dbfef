//go:build unix

package torture

import (
	"io"
	"net"
	"sync"
	"testing"
)

// tunnel forwards connections until it goes dark. Then it drops the bytes of all connections that are open, and of
// those that are opened while it is dark.
type tunnel struct {
	address string

	mu    sync.Mutex
	dark  bool
	pipes map[*pipe]bool // pipes of connections that the near side has not closed
}

// pipe is one direction of a connection through a tunnel.
type pipe struct {
	io.Writer
	tunnel *tunnel
	dead   bool
}

// Write discards the bytes if the pipe is dead.
func (p *pipe) Write(b []byte) (int, error) {
	p.tunnel.mu.Lock()
	dead := p.dead
	p.tunnel.mu.Unlock()
	if dead {
		return len(b), nil
	}
	return p.Writer.Write(b)
}

func dig(t *testing.T, to string) *tunnel {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tun := &tunnel{address: listener.Addr().String(), pipes: map[*pipe]bool{}}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go tun.carry(near, to)
		}
	}()
	return tun
}

func (tun *tunnel) carry(near net.Conn, to string) {
	defer near.Close()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	there, back := tun.pipe(far), tun.pipe(near)
	go func() { _, _ = io.Copy(back, far) }()
	_, _ = io.Copy(there, near) // returns when the near side closes the connection
	tun.mu.Lock()
	defer tun.mu.Unlock()
	delete(tun.pipes, there)
	delete(tun.pipes, back)
}

func (tun *tunnel) pipe(to io.Writer) *pipe {
	tun.mu.Lock()
	defer tun.mu.Unlock()
	p := &pipe{Writer: to, tunnel: tun, dead: tun.dark}
	tun.pipes[p] = true
	return p
}

// darken starts to drop all bytes.
func (tun *tunnel) darken() {
	tun.mu.Lock()
	defer tun.mu.Unlock()
	tun.dark = true
	for p := range tun.pipes {
		p.dead = true
	}
}

// light allows new connections to pass again. Connections that were dark stay dark.
func (tun *tunnel) light() {
	tun.mu.Lock()
	defer tun.mu.Unlock()
	tun.dark = false
}

// hasDead reports whether the near side still has a dark connection.
func (tun *tunnel) hasDead() bool {
	tun.mu.Lock()
	defer tun.mu.Unlock()
	for p := range tun.pipes {
		if p.dead {
			return true
		}
	}
	return false
}
