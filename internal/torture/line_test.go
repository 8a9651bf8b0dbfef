package torture

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// line is the connection from one caller to whichever facade runs. It reads the frames of
// the answers, so that it knows when the caller is about to hear.
type line struct {
	world    *world
	listener net.Listener

	newest atomic.Pointer[connection]
}

// connection is one from the caller to a facade.
type connection struct {
	caller *net.TCPConn
	facade *process
}

// serve passes on what connects, until the listener is closed.
func (l *line) serve() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.world.work.Go(func() { l.carry(conn.(*net.TCPConn)) })
	}
}

// carry passes on what comes on one connection, to a facade left to chance.
func (l *line) carry(caller *net.TCPConn) {
	defer caller.Close()
	defer context.AfterFunc(l.world.ctx, func() { caller.Close() })()
	facade := l.world.anyFacade()
	if facade == nil {
		return
	}
	up, err := net.Dial("tcp", facade.found[0])
	if err != nil {
		return
	}
	defer up.Close()
	l.newest.Store(&connection{caller, facade})
	l.world.work.Go(func() {
		_, _ = io.Copy(up, caller)
		up.Close()
	})
	for l.answer(facade, up, caller) {
	}
}

const (
	frameHeaders = 1
	endOfStream  = 1
)

// answer passes one HTTP/2 frame on to the caller. Headers that don't end their stream begin
// an answer that is no error: the order was taken, and the facade knows it.
func (l *line) answer(facade *process, up io.Reader, caller *net.TCPConn) bool {
	var head [9]byte
	if _, err := io.ReadFull(up, head[:]); err != nil {
		return false
	}
	frame := make([]byte, 9+int(binary.BigEndian.Uint32(head[:])>>8))
	copy(frame, head[:])
	if _, err := io.ReadFull(up, frame[9:]); err != nil {
		return false
	}
	taken := head[3] == frameHeaders && head[4]&endOfStream == 0
	if taken && facade.diesAt(beforeHearing) {
		facade.kill()
		return false
	}
	if taken && !l.world.isCalm() && rand.IntN(30) == 0 {
		l.world.tally.unheard()
		_, _ = caller.Write(frame[:rand.IntN(len(frame)+1)])
		return false
	}
	_, err := caller.Write(frame)
	return err == nil
}

// heard is told that the caller has heard of its order. It reports whether the facade that
// told it was killed for that.
func (l *line) heard() bool {
	newest := l.newest.Load()
	if newest == nil || !newest.facade.diesAt(afterHearing) {
		return false
	}
	newest.facade.kill()
	return true
}

// hangUp lets the caller connect anew, perhaps to another facade.
func (l *line) hangUp() {
	if newest := l.newest.Load(); newest != nil {
		newest.caller.Close()
	}
}
