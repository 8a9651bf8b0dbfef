package simulation

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// wireRoom is the number of bytes that a connection buffers in each direction before writes block.
const wireRoom = 64 << 10

// forsaken is the time after which a connection is closed if the other end acknowledges nothing. The servers set the
// same timeout for real TCP connections.
const forsaken = 45 * time.Second

// condition is the state of a link.
type condition int

const (
	up      condition = iota
	refused           // new connections fail at once
	silent            // all packets are lost: connection attempts and sent bytes never arrive
	frozen            // bytes are delayed until the condition changes
)

// link is the network path between two places. Its condition affects all connections over it.
type link struct {
	mu    sync.Mutex
	state condition
	wires []*wire       // open connections, in the order of their creation
	hits  int           // number of dials and connections that were refused, delayed, lost or reset
	queue int           // number of dials that wait for the condition to change
	over  chan struct{} // closed when state changes
}

func newLink() *link { return &link{over: make(chan struct{})} }

// spacing is the time between two events that would otherwise happen at the same instant.
const spacing = time.Microsecond

// setCondition sets the condition of the link. Connections that are open when the link becomes silent are lost, even if
// the condition changes again later.
func (l *link) setCondition(state condition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	close(l.over)
	l.over, l.queue = make(chan struct{}), 0
	for i, w := range l.wires {
		switch state {
		case silent:
			l.hits++
			w.hold(true)
			w.abandon()
		case frozen:
			l.hits++
			w.hold(true)
		case up:
			if !w.lost {
				time.AfterFunc(time.Duration(i)*spacing, func() { w.hold(false) })
			}
		case refused:
		}
	}
}

// cutConnections resets all connections and returns their number.
func (l *link) cutConnections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.wires)
	for _, w := range l.wires {
		w.reset()
	}
	l.wires = nil
	l.hits += n
	return n
}

// firedCount returns the number of dials and connections that the link has refused, delayed, lost or reset.
func (l *link) firedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hits
}

// dial opens a connection to an address over the link.
func (l *link) dial(ctx context.Context, to *sharedAddress) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		l.mu.Lock()
		state, over := l.state, l.over
		if state != up {
			l.hits++
			l.queue++
		}
		turn := time.Duration(l.queue) * spacing
		l.mu.Unlock()
		switch state {
		case refused:
			return nil, dialError(syscall.ECONNREFUSED)
		case silent, frozen:
			select {
			case <-over:
				time.Sleep(turn)
				continue
			case <-ctx.Done():
				return nil, dialError(os.ErrDeadlineExceeded)
			}
		case up:
		}
		return l.connect(ctx, to)
	}
}

func (l *link) connect(ctx context.Context, to *sharedAddress) (net.Conn, error) {
	server := to.current()
	if server == nil {
		return nil, dialError(syscall.ECONNREFUSED)
	}
	w := newWire(l)
	select {
	case server.conns <- w.far:
	case <-server.done:
		return nil, dialError(syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, dialError(ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wires = append(l.wires, w)
	if l.state != up {
		w.hold(true)
	}
	return w.near, nil
}

func dialError(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

func (l *link) drop(w *wire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wires = slices.DeleteFunc(l.wires, func(one *wire) bool { return one == w })
}

// wire is a simulated network connection. It carries bytes in both directions between its two ends.
type wire struct {
	link      *link
	near, far *end
	there     *direction // carries the bytes from near to far
	back      *direction
	lost      bool // whether the link became silent during this connection; guarded by the link's mutex
}

func newWire(l *link) *wire {
	w := &wire{link: l, there: newDirection(), back: newDirection()}
	w.near = &end{wire: w, in: w.back, out: w.there}
	w.far = &end{wire: w, in: w.there, out: w.back}
	return w
}

func (w *wire) hold(held bool) {
	w.there.hold(held)
	w.back.hold(held)
}

func (w *wire) reset() {
	w.there.reset()
	w.back.reset()
}

// abandon resets the connection after the delay [forsaken], as TCP does if the other end no longer responds.
func (w *wire) abandon() {
	if w.lost {
		return
	}
	w.lost = true
	time.AfterFunc(forsaken, func() {
		w.reset()
		w.link.drop(w)
	})
}

// end is one end of a connection.
type end struct {
	wire    *wire
	in, out *direction
}

func (e *end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error) { return e.out.write(p) }

// Close closes the end. The other end can still read the bytes that were written before Close.
func (e *end) Close() error {
	last := e.out.finish()
	if e.in.abandon() && last {
		e.wire.link.drop(e.wire)
	}
	return nil
}

func (e *end) LocalAddr() net.Addr  { return here }
func (e *end) RemoteAddr() net.Addr { return here }

func (e *end) SetDeadline(t time.Time) error {
	return errors.Join(e.SetReadDeadline(t), e.SetWriteDeadline(t))
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.in.limit(&e.in.readBy, t)
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.out.limit(&e.out.writeBy, t)
	return nil
}

// direction carries the bytes of a connection in one direction.
type direction struct {
	mu       sync.Mutex
	news     sync.Cond
	bytes    []byte
	held     bool  // whether written bytes are held back
	finished bool  // whether the writer has closed its end
	deserted bool  // whether the reader has closed its end
	broken   error // error of a reset connection, or nil

	readBy, writeBy deadline
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newDirection() *direction {
	d := &direction{}
	d.news.L = &d.mu
	return d
}

func (d *direction) read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.deserted:
			return 0, net.ErrClosed
		case d.broken != nil:
			return 0, d.broken
		case d.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case !d.held && len(d.bytes) > 0:
			n := copy(p, d.bytes)
			if d.bytes = d.bytes[n:]; len(d.bytes) == 0 {
				d.bytes = nil
			}
			d.news.Broadcast()
			return n, nil
		case !d.held && d.finished:
			return 0, io.EOF
		}
		d.news.Wait()
	}
}

func (d *direction) write(p []byte) (written int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.finished:
			return written, net.ErrClosed
		case d.broken != nil:
			return written, d.broken
		case d.writeBy.passed():
			return written, os.ErrDeadlineExceeded
		case d.deserted && !d.held:
			return written, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
		case len(p) == 0:
			return written, nil
		}
		if n := min(wireRoom-len(d.bytes), len(p)); n > 0 {
			d.bytes = append(d.bytes, p[:n]...)
			p, written = p[n:], written+n
			d.news.Broadcast()
			continue
		}
		d.news.Wait()
	}
}

// updateState calls fn under the lock, and wakes both ends.
func (d *direction) updateState(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
	d.news.Broadcast()
}

func (d *direction) hold(held bool) { d.updateState(func() { d.held = held }) }

func (d *direction) reset() {
	d.updateState(func() {
		d.broken = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
		d.bytes = nil
	})
}

// finish closes the writer's end. It reports whether this was the last open end, that is, whether the reader's end
// was already closed.
func (d *direction) finish() (isLast bool) {
	d.updateState(func() { d.finished, isLast = true, d.deserted; d.stopTimers() })
	return isLast
}

// abandon closes the reader's end. It reports whether this was the last open end, that is, whether the writer's end
// was already closed.
func (d *direction) abandon() (isLast bool) {
	d.updateState(func() { d.deserted, isLast = true, d.finished; d.stopTimers() })
	return isLast
}

// stopTimers stops the timers if both ends are closed.
func (d *direction) stopTimers() {
	if !d.finished || !d.deserted {
		return
	}
	for _, by := range []*deadline{&d.readBy, &d.writeBy} {
		if by.timer != nil {
			by.timer.Stop()
		}
	}
}

func (d *direction) limit(by *deadline, at time.Time) {
	d.updateState(func() {
		if by.timer != nil {
			by.timer.Stop()
			by.timer = nil
		}
		if by.at = at; at.IsZero() {
			return
		}
		if left := time.Until(at); left > 0 {
			by.timer = time.AfterFunc(left, func() { d.updateState(func() {}) })
		}
	})
}
