//go:build unix

package torture

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"github.com/easel-grpc/easel/internal/proctest"
)

// forwardToDatabase forwards the traffic between an Easel server and PostgreSQL. It parses the protocol to detect
// commits.
func (w *world) forwardToDatabase(near *net.TCPConn, owner *supervisor) {
	up, err := net.Dial("tcp", w.postgres.Address())
	if err != nil {
		return
	}
	defer up.Close()
	s := &session{world: w, near: near, up: up, over: make(chan struct{})}
	w.work.Go(func() {
		for s.forwardAnswer() {
		}
		close(s.over)
		up.Close()
		near.Close()
	})
	for typed := 0; s.forwardRequest(owner, typed); typed = 1 { // typed is 0 for the first message, which has no type, and 1 for all others
	}
}

// session is a connection from an Easel server to PostgreSQL.
type session struct {
	world   *world
	near    *net.TCPConn
	up      net.Conn
	facade  atomic.Pointer[proctest.Process] // process that sent the latest commit
	backend atomic.Int64                     // PID of the PostgreSQL backend
	silent  atomic.Bool                      // whether responses are dropped
	over    chan struct{}                    // closed when PostgreSQL has closed the connection
}

// forwardRequest forwards a message from an Easel server. A fault can end the connection before a commit is forwarded.
// forwardRequest reports whether the connection stays open.
func (s *session) forwardRequest(owner *supervisor, typed int) bool {
	kind, text, err := readPostgres(s.near, typed)
	if err != nil {
		return false
	}
	if kind == 'Q' && string(text[5:]) == "commit\x00" {
		s.facade.Store(owner.runningProcess())
		if f := s.drawFault(committing); f != nil {
			s.silent.Store(f.group == stalls && !f.continues)
			if s.injectFault(f) {
				return false
			}
		}
	}
	_, err = s.up.Write(text)
	return err == nil
}

// forwardAnswer forwards a message from PostgreSQL, unless a fault drops the message. It reports whether the connection
// stays open.
func (s *session) forwardAnswer() bool {
	kind, text, err := readPostgres(s.up, 1)
	if err != nil {
		return false
	}
	if kind == 'K' { // BackendKeyData contains the PID of the backend
		s.backend.Store(int64(binary.BigEndian.Uint32(text[5:])))
	}
	if kind == 'C' && strings.EqualFold(string(text[5:]), "commit\x00") {
		if f := s.drawFault(committed); f != nil {
			if f.part(message{head: text}) > 0 {
				_, _ = s.near.Write(append(text, 'Z', 0, 0, 0, 5, 'I')) // the last six bytes are a ReadyForQuery message
			}
			return !s.injectFault(f)
		}
	}
	if s.silent.Load() {
		return true
	}
	_, err = s.near.Write(text)
	return err == nil
}

// drawFault selects a fault for the given stage of a commit. It returns nil if no fault is due, or if no Easel server
// has sent a commit over this connection yet.
func (s *session) drawFault(at stage) *fault {
	if s.facade.Load() == nil {
		return nil
	}
	return s.world.drawFault(at)
}

func (s *session) injectFault(f *fault) (ended bool) {
	return s.world.injectFault(f, &exchange{world: s.world, facade: s.facade.Load(), near: s.near, dropped: s.up, over: s.over, backend: int(s.backend.Load())})
}

// readPostgres reads a complete message. If typed is 1, the message starts with its type. If typed is 0, it starts with
// its length.
func readPostgres(r io.Reader, typed int) (kind byte, text []byte, err error) {
	text = make([]byte, typed+4)
	if _, err := io.ReadFull(r, text); err != nil {
		return 0, nil, err
	}
	rest := make([]byte, max(4, binary.BigEndian.Uint32(text[typed:]))-4)
	_, err = io.ReadFull(r, rest)
	return text[0], append(text, rest...), err
}

// restartDatabase calls killProcess, which kills PostgreSQL or one of its processes. Then it waits until PostgreSQL
// accepts connections again, and returns true. If another fault is restarting PostgreSQL, it returns false without
// calling killProcess.
func (w *world) restartDatabase(killProcess func()) bool {
	if !w.restarting.TryLock() {
		return false
	}
	defer w.restarting.Unlock()
	killProcess()
	if err := w.postgres.Start(); err != nil {
		w.fail(err)
	}
	return true
}
