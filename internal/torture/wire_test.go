//go:build unix

package torture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"
)

// wire is the connection from one facade to the catalog, or from several. It forwards HTTP messages
// byte by byte, except for injected faults.
type wire struct {
	world    *world
	owners   []*supervisor
	listener net.Listener
}

// from returns the process that has a connection, or nil.
func (w *wire) from(facade net.Conn) *process {
	if len(w.owners) == 1 {
		return w.owners[0].now()
	}
	for _, owner := range w.owners {
		if p := owner.now(); p != nil && p.ownsPeerOf(facade) {
			return p
		}
	}
	return nil
}

// orderLine is the start of a request that spends money.
var orderLine = []byte("POST /api/v1/api/catalog/generations ")

// largeBody is larger than the amount that the kernel accepts at once from a facade over a wire:
// the facade is still writing when the first bytes arrive.
const largeBody = 256 << 10

// serve forwards connections until the listener is closed.
func (w *wire) serve() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.world.work.Go(func() { w.carry(conn.(*net.TCPConn)) })
	}
}

// carry forwards one connection.
func (w *wire) carry(facade *net.TCPConn) {
	defer facade.Close()
	defer context.AfterFunc(w.world.ctx, func() { facade.Close() })()
	from, catalog := w.from(facade), w.world.catalog.now()
	if from == nil || catalog == nil {
		return
	}
	up, err := net.Dial("tcp", catalog.found[0])
	if err != nil {
		return
	}
	defer up.Close()
	defer context.AfterFunc(w.world.ctx, func() { up.Close() })()
	c := &crossing{
		world: w.world, from: from, catalog: catalog,
		facade: facade, requests: bufio.NewReader(facade), up: up, answers: bufio.NewReader(up),
	}
	for c.exchange() == nil {
	}
}

// crossing is one connection of a wire, and the two processes at its ends.
type crossing struct {
	world         *world
	from, catalog *process
	facade        *net.TCPConn
	requests      *bufio.Reader
	up            net.Conn
	answers       *bufio.Reader
}

// errStruck ends a connection because of a fate.
var errStruck = errors.New("struck")

// exchange forwards one request and its response, up to the point of a fault.
func (c *crossing) exchange() error {
	request, err := readHead(c.requests)
	if err != nil {
		return err
	}
	f := c.draw(request)
	err = c.pass(request, f)
	if err != nil && !errors.Is(err, errStruck) && f.victim != nil {
		f.victim.condemn(f.at, 0) // it did not come to that
	}
	return err
}

// pass forwards the request and its response with a known fate.
func (c *crossing) pass(request message, f fate) error {
	whole := io.MultiReader(bytes.NewReader(request.head), io.LimitReader(c.requests, int64(request.size)))
	if f.strike != nil && !f.answered {
		_, _ = io.CopyN(c.up, whole, int64(f.passes(request))) // if it fails, the catalog is dead too
		f.strike(c, request)
		return errStruck
	}
	if _, err := io.CopyN(c.up, whole, int64(everything(request))); err != nil {
		return err
	}
	if f.meanwhile != nil {
		f.meanwhile(c)
	}
	answer, body, err := readMessage(c.answers)
	if err != nil {
		return err
	}
	text := append(answer.head, body...)
	if f.strike == nil {
		_, err = c.facade.Write(text)
		return err
	}
	_, _ = c.facade.Write(text[:f.passes(answer)])
	f.strike(c, request)
	return errStruck
}

// fate is the fault of one exchange.
type fate struct {
	at        point
	victim    *process          // the process that dies, or nil
	answered  bool              // it strikes in the answer, not in the request
	passes    func(message) int // how many bytes of it pass before
	strike    func(c *crossing, request message)
	meanwhile func(c *crossing) // is done while the catalog has the request
}

func nothing(message) int          { return 0 }
func everything(m message) int     { return len(m.head) + m.size }
func something(m message) int      { return 1 + rand.IntN(len(m.head)+m.size-1) }
func anything(m message) int       { return rand.IntN(len(m.head) + m.size + 1) }
func startOfTheBody(m message) int { return len(m.head) + rand.IntN(16<<10) }

func killFacade(c *crossing, _ message) { c.from.kill() }

func killCatalog(c *crossing, _ message) { c.catalog.kill() }

// killWriter kills a facade that is writing, and notes whether it was: then not all of the
// request was in the hands of the kernel.
func killWriter(c *crossing, request message) {
	c.from.kill()
	rest, _ := io.Copy(io.Discard, c.requests)
	c.world.tally.writing(int(rest) < request.size-16<<10)
}

// killSoon kills the catalog at a random moment, within about the duration of an order.
func killSoon(c *crossing) {
	c.world.work.Go(func() {
		time.Sleep(rand.N(4 * time.Millisecond)) // the moment is the point
		c.catalog.kill()
	})
}

var fatesOfOrders = []fate{
	{at: beforeOrder, passes: nothing, strike: killFacade},
	{at: afterCommit, answered: true, passes: nothing, strike: killFacade},
	{at: amidAnswer, answered: true, passes: something, strike: killFacade},
	{at: afterAnswer, answered: true, passes: everything, strike: killFacade},
	{at: catalogBefore, passes: nothing, strike: killCatalog},
	{at: catalogAmid, passes: something, strike: killCatalog},
	{at: catalogTaking, meanwhile: killSoon},
	{at: catalogAfter, answered: true, passes: nothing, strike: killCatalog},
}

// draw selects the fault of an exchange.
func (c *crossing) draw(request message) fate {
	if bytes.HasPrefix(request.head, orderLine) {
		if request.size >= largeBody && c.from.diesAt(amidOrder) {
			return fate{passes: startOfTheBody, strike: killWriter}
		}
		for _, f := range fatesOfOrders {
			for _, p := range []*process{c.from, c.catalog} {
				if p.diesAt(f.at) {
					f.victim = p
					return f
				}
			}
		}
	}
	if c.world.isCalm() || rand.Float64() >= c.world.goal.cutShare {
		return fate{}
	}
	kind := cut(rand.IntN(int(cuts)))
	if kind == hole && rand.IntN(4) > 0 { // a hole takes long
		kind = reset
	}
	return fate{answered: rand.IntN(2) == 0, passes: anything, strike: func(c *crossing, _ message) {
		c.world.tally.cut(kind)
		c.sever(kind)
	}}
}

// cut is a kind of network failure.
type cut int

const (
	closed cut = iota // FIN: the peer closes the connection
	reset             // RST: the connection is reset
	hole              // no signal: bytes are lost from now on
	cuts
)

func (k cut) String() string { return [cuts]string{"closed", "reset", "black hole"}[k] }

// sever ends the connection to the facade in one of these ways.
func (c *crossing) sever(kind cut) {
	switch kind {
	case closed:
	case reset:
		_ = c.facade.SetLinger(0)
	case hole:
		defer context.AfterFunc(c.world.storm, func() { c.facade.Close() })()
		_, _ = io.Copy(io.Discard, c.facade) // until the facade closes it, or is killed
		if !c.from.wasKilled() && !c.world.isCalm() {
			c.world.tally.retire()
		}
	}
}

// message is an HTTP/1.1 message whose head was read.
type message struct {
	head []byte
	size int // size of the body
}

func readHead(r *bufio.Reader) (m message, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return m, err
		}
		m.head = append(m.head, line...)
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch strings.ToLower(name) {
		case "":
			return m, nil
		case "content-length":
			if m.size, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return m, err
			}
		case "transfer-encoding":
			return m, errors.New("a wire can't read chunks")
		}
	}
}

// readMessage reads a complete message.
func readMessage(r *bufio.Reader) (message, []byte, error) {
	m, err := readHead(r)
	if err != nil {
		return m, nil, err
	}
	body := make([]byte, m.size)
	_, err = io.ReadFull(r, body)
	return m, body, err
}
