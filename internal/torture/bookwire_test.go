//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// bookWire proxies the connections from one facade to PostgreSQL. It parses PostgreSQL's protocol to detect
// commits in flight.
type bookWire struct {
	books    *books
	owner    *supervisor
	listener net.Listener
}

// books is the PostgreSQL of the ledger, with the faults of its connections.
type books struct {
	t      *testing.T
	world  *world
	server *proctest.Postgres
	kills  int // wanted
	stalls int // wanted
	skip   int // maximum number of commits before the next kill

	mu       sync.Mutex
	left     int // commits before the next kill
	dying    bool
	flowing  int // commits before the next stall
	stall    mishap
	happened [mishaps]int
	refused  int // failed starts of a facade while PostgreSQL was down
}

// mishap is the fault of a commit. A commit whose response is lost is in doubt.
type mishap int

const (
	none          mishap = iota
	facadeBefore         // the facade is killed before PostgreSQL receives the commit
	facadeAmid           // the facade is killed after the commit, before the response
	facadeAfter          // the facade is killed after the response
	silentBefore         // PostgreSQL and the facade receive nothing more, in the middle of a transaction
	stoppedBefore        // the facade is frozen for longer than PostgreSQL keeps its transaction
	cutBefore            // the connection ends before PostgreSQL receives the commit
	cutAfter             // the connection ends after the commit
	silentAfter          // likewise, and the facade no longer receives anything
	backendBefore        // PostgreSQL's process of the connection is killed, which restarts all processes
	backendAfter         // likewise, after the commit
	serverBefore         // PostgreSQL is killed, and started again
	serverAfter          // likewise, after the commit
	mishaps
)

func (m mishap) String() string {
	return [mishaps]string{
		"none", "a facade killed before a commit", "a facade killed before its answer", "a facade killed after its answer",
		"silence instead of a commit", "a facade stopped before a commit",
		"cut before a commit", "cut before its answer", "silence instead of its answer",
		"a process of PostgreSQL killed before a commit", "a process of PostgreSQL killed before its answer",
		"PostgreSQL killed before a commit", "PostgreSQL killed before its answer",
	}[m]
}

// before reports whether PostgreSQL does not receive the commit.
func (m mishap) before() bool {
	return slices.Contains([]mishap{facadeBefore, silentBefore, cutBefore, backendBefore, serverBefore}, m)
}

// kill reports whether the mishap kills PostgreSQL.
func (m mishap) kill() bool { return m >= backendBefore }

// deaths maps mishaps to the points where a facade dies.
var deaths = map[mishap]point{facadeBefore: beforeWriting, facadeAmid: amidWriting, facadeAfter: afterWriting}

// draw selects the mishap of a commit of a facade.
func (b *books) draw(from *process) mishap {
	for m, at := range deaths {
		if from.diesAt(at) {
			return m
		}
	}
	if b.world.isCalm() {
		return none
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left < 0 && !b.dying {
		b.left, b.dying = rand.IntN(b.skip), true
		return backendBefore + mishap(rand.IntN(int(mishaps-backendBefore)))
	}
	if b.flowing--; b.flowing < 0 {
		b.flowing = b.kills*b.skip/b.stalls/2 + rand.IntN(b.skip)
		b.stall = silentBefore + stoppedBefore - b.stall // the other one
		return b.stall
	}
	if rand.IntN(60) == 0 {
		return cutBefore + mishap(rand.IntN(int(backendBefore-cutBefore)))
	}
	return none
}

func (b *books) count(m mishap) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.happened[m]++
}

// missed records a commit whose connection ended before its mishap happened. Another commit gets
// the mishap.
func (b *books) missed(m mishap, from *process) {
	if at, dies := deaths[m]; dies {
		from.condemn(at, 0)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.kill() {
		b.dying = false
	}
}

// stalled returns the number of transactions that were left open.
func (b *books) stalled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.happened[silentBefore] + b.happened[stoppedBefore]
}

// killed returns the number of kills of PostgreSQL.
func (b *books) killed() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for m := backendBefore; m < mishaps; m++ {
		n += b.happened[m]
	}
	return n
}

// restart kills PostgreSQL or one of its processes, and returns when it accepts connections again.
func (b *books) restart(m mishap, backend int) {
	if m == serverBefore || m == serverAfter {
		b.server.Kill()
	} else {
		_ = syscall.Kill(backend, syscall.SIGKILL) // it may have ended
	}
	if err := b.server.Start(); err != nil {
		b.t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dying = false
}

// table returns the figures of the mishaps.
func (b *books) table() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text strings.Builder
	for m := silentBefore; m < mishaps; m++ {
		fmt.Fprintf(&text, "  %-50s %4d\n", m, b.happened[m])
	}
	fmt.Fprintf(&text, "  %-50s %4d\n", "starts of a facade refused without PostgreSQL", b.refused)
	return text.String()
}

// serve forwards connections until the listener is closed.
func (w *bookWire) serve() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.books.world.work.Go(func() { w.carry(conn.(*net.TCPConn)) })
	}
}

func (w *bookWire) carry(facade *net.TCPConn) {
	defer facade.Close()
	defer context.AfterFunc(w.books.world.ctx, func() { facade.Close() })()
	up, err := net.Dial("tcp", w.books.server.Address())
	if err != nil {
		return
	}
	defer up.Close()
	s := &bookSession{wire: w, facade: facade, up: up, over: make(chan struct{})}
	w.books.world.work.Go(func() {
		s.answers()
		close(s.over)
		up.Close()
		facade.Close()
	})
	s.requests()
}

// bookSession is one connection of a facade to PostgreSQL.
type bookSession struct {
	wire       *bookWire
	facade, up net.Conn
	backend    atomic.Int64            // the process of PostgreSQL
	silent     atomic.Bool             // the facade no longer receives anything
	over       chan struct{}           // closed when PostgreSQL has ended the session
	fate       atomic.Pointer[mishap]  // mishap of the commit in flight
	from       atomic.Pointer[process] // process that sent it
}

var commit = []byte("commit\x00")

// requests forwards the messages of the facade. The first one has no type.
func (s *bookSession) requests() {
	defer s.missed()
	for head := 0; ; head = 1 {
		kind, text, err := readPostgres(s.facade, head)
		if err != nil {
			return
		}
		if kind == 'Q' && bytes.Equal(text[5:], commit) && s.commits() {
			return
		}
		if _, err := s.up.Write(text); err != nil {
			return
		}
	}
}

// commits selects the mishap of a commit, and reports whether it ended the session before
// PostgreSQL received the commit.
func (s *bookSession) commits() (over bool) {
	from := s.wire.owner.now()
	if from == nil { // it is about to start
		return false
	}
	m := s.wire.books.draw(from)
	s.from.Store(from)
	if m == stoppedBefore {
		s.strike(m)
		return false
	}
	if !m.before() {
		s.fate.Store(&m)
		return false
	}
	s.strike(m)
	return true
}

// answers forwards the messages of PostgreSQL.
func (s *bookSession) answers() {
	defer s.missed()
	for {
		kind, text, err := readPostgres(s.up, 1)
		if err != nil {
			return
		}
		if kind == 'K' { // names the process
			s.backend.Store(int64(binary.BigEndian.Uint32(text[5:])))
		}
		m := none
		if fate := s.fate.Load(); kind == 'C' && fate != nil {
			m = *fate
			s.fate.Store(nil) // the mishap happens to this commit
		}
		if m == facadeAfter {
			_, _ = s.facade.Write(append(text, 'Z', 0, 0, 0, 5, 'I')) // it is ready for the next statement
		}
		if m != none {
			s.strike(m)
			return
		}
		if s.silent.Load() {
			continue
		}
		if _, err := s.facade.Write(text); err != nil {
			return
		}
	}
}

// missed ends the session. The mishap of its last commit did not happen.
func (s *bookSession) missed() {
	if fate := s.fate.Swap(nil); fate != nil {
		s.wire.books.missed(*fate, s.from.Load())
	}
}

// stallTime is longer than a transaction may block others.
const stallTime = 12 * time.Second

// strike carries out the mishap of a commit.
func (s *bookSession) strike(m mishap) {
	s.wire.books.count(m)
	switch {
	case m.kill():
		backend := int(s.backend.Load())
		s.wire.books.restart(m, backend)
	case m == silentBefore:
		s.silent.Store(true)
		select { // PostgreSQL aborts the transaction of the unreachable host
		case <-s.over:
		case <-time.After(stallTime):
		}
	case m == stoppedBefore:
		s.from.Load().standStill(stallTime)
	case m == silentAfter:
		defer context.AfterFunc(s.wire.books.world.storm, func() { s.facade.Close() })()
		_, _ = io.Copy(io.Discard, s.up) // until the facade closes it, or is killed
	case m == facadeBefore || m == facadeAmid || m == facadeAfter:
		s.from.Load().kill()
	}
}

// readPostgres reads a message: head bytes of its type, its length and the rest.
func readPostgres(r io.Reader, head int) (kind byte, text []byte, err error) {
	text = make([]byte, head+4)
	if _, err := io.ReadFull(r, text); err != nil {
		return 0, nil, err
	}
	rest := make([]byte, max(4, binary.BigEndian.Uint32(text[head:]))-4)
	_, err = io.ReadFull(r, rest)
	return text[0], append(text, rest...), err
}
