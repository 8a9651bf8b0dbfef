package server

import (
	"container/heap"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// fullInterval is the least time between two lines of the log that a listener is full.
const fullInterval = time.Minute

// limitedListener limits the connections of a listener. One that finds no room is closed at once: left in the kernel's
// queue it would wait in silence, for as long as others stay.
type limitedListener struct {
	net.Listener
	open   *connections
	logger *slog.Logger
	logged time.Time // when the last line said that it is full
}

// Accept implements net.Listener. One goroutine calls it.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in, out := l.open.take(conn)
		if out != nil {
			l.logFull()
			_ = out.Close() // whoever is at its other end had proved nothing
		}
		if in != nil {
			return in, nil
		}
	}
}

// logFull logs that connections are closed, and no more often than somebody wants to read it.
func (l *limitedListener) logFull() {
	if now := time.Now(); l.logged.IsZero() || now.Sub(l.logged) >= fullInterval {
		l.logged = now
		l.logger.Warn("connections are closed, as there are too many", "addr", l.Addr().String(), "limit", l.open.all, "limit_of_address", l.open.each)
	}
}

// connections are those of a listener, so many of one address and of all. A newcomer that finds them taken gets the room
// of the oldest connection that has proved nothing: of its own address, where that has too many, else of the address that
// has the most such. So whoever has no credential, from however few addresses, keeps nobody out, and loses first what is
// his own. A connection has proved itself when a call on it was let in under a credential; then it stays. On the addresses
// of operators one with a request goes after all of its address that have none.
type connections struct {
	each, all int

	mu        sync.Mutex
	total     int
	last      uint64 // number of the newest connection
	addresses map[string]*address
	crowds    crowds
}

func newConnections(each, all int) *connections {
	return &connections{each: each, all: all, addresses: map[string]*address{}}
}

// newPublicConnections are those of a listener for callers: no address has all.
func newPublicConnections(all int) *connections { return newConnections(all-all/4, all) }

// take takes a connection in, and gives the one that must be closed: none, another, or itself, which is not in then.
func (c *connections) take(conn net.Conn) (in *limitedConn, out net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := host(conn.RemoteAddr().String())
	at := c.addresses[from]
	var oldest *limitedConn
	switch {
	case at != nil && at.open >= c.each:
		oldest = at.oldest()
	case c.total >= c.all && len(c.crowds) > 0:
		oldest = c.crowds[0].oldest()
	case c.total < c.all:
		return c.add(conn, from), nil
	}
	if oldest == nil {
		return nil, conn
	}
	c.remove(oldest)
	return c.add(conn, from), oldest
}

// add counts a connection in. mu is held.
func (c *connections) add(conn net.Conn, from string) *limitedConn {
	at := c.addresses[from]
	if at == nil {
		at = &address{name: from, place: -1}
		c.addresses[from] = at
	}
	c.last++
	in := &limitedConn{Conn: conn, of: c, from: at, number: c.last}
	at.open++
	c.total++
	at.unproved = append(at.unproved, in)
	c.arrange(at)
	return in
}

// remove counts a connection out, once. mu is held.
func (c *connections) remove(conn *limitedConn) {
	if conn.gone {
		return
	}
	conn.gone = true
	at := conn.from
	at.open--
	c.total--
	c.leaveUnproved(conn)
	if at.open == 0 {
		delete(c.addresses, at.name)
	}
}

// leaveUnproved takes a connection from those that have proved nothing. mu is held.
func (c *connections) leaveUnproved(conn *limitedConn) {
	at := conn.from
	if n, found := slices.BinarySearchFunc(at.unproved, conn.number, olderThan); found {
		at.unproved = slices.Delete(at.unproved, n, n+1)
		c.arrange(at)
	}
}

// arrange puts an address where it belongs among the crowds. mu is held.
func (c *connections) arrange(at *address) {
	switch crowd := len(at.unproved) > 0; {
	case crowd && at.place < 0:
		heap.Push(&c.crowds, at)
	case crowd:
		heap.Fix(&c.crowds, at.place)
	case at.place >= 0:
		heap.Remove(&c.crowds, at.place)
	}
}

// inUse is how many there are.
func (c *connections) inUse() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// address is where connections come from.
type address struct {
	name     string
	open     int            // connections
	unproved []*limitedConn // those of them that have proved nothing, the oldest first
	place    int            // among the crowds; -1: none
}

// oldest is the oldest connection that has proved nothing, of those without a request where there are such; nil: each has
// proved itself.
func (a *address) oldest() *limitedConn {
	if len(a.unproved) == 0 {
		return nil
	}
	if n := slices.IndexFunc(a.unproved, (*limitedConn).idle); n >= 0 {
		return a.unproved[n]
	}
	return a.unproved[0]
}

// crowds are the addresses with connections that have proved nothing: a heap, with the one that has the most at its top,
// and of two that have as many the one with the oldest.
type crowds []*address

// Len implements heap.Interface.
func (c crowds) Len() int { return len(c) }

// Less implements heap.Interface.
func (c crowds) Less(i, j int) bool {
	a, b := c[i].unproved, c[j].unproved
	return len(a) > len(b) || len(a) == len(b) && a[0].number < b[0].number
}

// Swap implements heap.Interface.
func (c crowds) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].place, c[j].place = i, j
}

// Push implements heap.Interface.
func (c *crowds) Push(x any) {
	at := x.(*address) //nolint:forcetypeassert // as above
	at.place = len(*c)
	*c = append(*c, at)
}

// Pop implements heap.Interface.
func (c *crowds) Pop() any {
	last := len(*c) - 1
	at := (*c)[last]
	(*c)[last], at.place = nil, -1
	*c = (*c)[:last]
	return at
}

// limitedConn is a connection of a listener. It is counted out when it is closed, however often that is.
type limitedConn struct {
	net.Conn
	of     *connections
	from   *address
	number uint64 // a younger one has a higher
	gone   bool   // it is counted out
	proved atomic.Bool
	asked  atomic.Int64 // requests of operators that are under way
}

// idle reports whether no request of an operator is under way.
func (c *limitedConn) idle() bool { return c.asked.Load() == 0 }

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// prove says that a call on the connection was let in under a credential.
func (c *limitedConn) prove() {
	if c == nil || c.proved.Load() || c.proved.Swap(true) {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.leaveUnproved(c)
}

func olderThan(c *limitedConn, number uint64) int {
	switch {
	case c.number < number:
		return -1
	case c.number > number:
		return 1
	}
	return 0
}

type limitedConnKey struct{}

// withConn lets the requests of an HTTP connection know it.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	return context.WithValue(ctx, limitedConnKey{}, conn)
}

// limitedConnOf is the connection of a request; nil where a handler is not behind a listener of the server.
func limitedConnOf(ctx context.Context) *limitedConn {
	c, _ := ctx.Value(limitedConnKey{}).(*limitedConn)
	return c
}
