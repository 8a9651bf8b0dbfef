//go:build unix

package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// callerProxy proxies the connection from one caller to any running facade. It parses the responses to
// detect a delivery before the caller receives it.
type callerProxy struct {
	world    *world
	listener net.Listener
	rest     bool // whether the target is the REST address instead of the gRPC address

	newest atomic.Pointer[proxiedConn]
}

// proxiedConn is a connection from the caller to a facade.
type proxiedConn struct {
	caller *net.TCPConn
	facade *process
}

// serve forwards connections until the listener is closed.
func (l *callerProxy) serve() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.world.work.Go(func() { l.proxy(conn.(*net.TCPConn)) })
	}
}

// proxy forwards one connection to a random facade.
func (l *callerProxy) proxy(caller *net.TCPConn) {
	defer caller.Close()
	defer context.AfterFunc(l.world.ctx, func() { caller.Close() })()
	facade := l.world.anyFacade()
	if facade == nil {
		return
	}
	address := facade.found[0]
	if l.rest {
		address = facade.found[1]
	}
	up, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer up.Close()
	l.newest.Store(&proxiedConn{caller, facade})
	l.world.work.Go(func() {
		_, _ = io.Copy(up, caller)
		up.Close()
	})
	for answers := bufio.NewReader(up); l.answer(facade, answers, caller); {
	}
}

const (
	frameHeaders = 1
	endOfStream  = 1
)

// readChunk reads the next part of a facade's response, and reports whether a successful response
// starts there: then the order was accepted, and the facade knows it.
func (l *callerProxy) readChunk(answers *bufio.Reader) (text []byte, taken bool, err error) {
	if l.rest {
		m, body, err := readMessage(answers)
		return append(m.head, body...), bytes.HasPrefix(m.head, []byte("HTTP/1.1 200 ")), err
	}
	head := make([]byte, 9)
	if _, err := io.ReadFull(answers, head); err != nil {
		return nil, false, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
	_, err = io.ReadFull(answers, payload)
	// Headers that end their stream belong to an error.
	return append(head, payload...), head[3] == frameHeaders && head[4]&endOfStream == 0, err
}

// answer passes one piece on to the caller.
func (l *callerProxy) answer(facade *process, answers *bufio.Reader, caller *net.TCPConn) bool {
	text, taken, err := l.readChunk(answers)
	if err != nil {
		return false
	}
	if taken && facade.diesAt(beforeHearing) {
		facade.kill()
		return false
	}
	if taken && !l.world.isCalm() && rand.IntN(30) == 0 {
		l.world.tally.cutBeforeAnswer()
		_, _ = caller.Write(text[:rand.IntN(len(text))])
		return false
	}
	_, err = caller.Write(text)
	return err == nil
}

// beforeDelivery is called before the caller receives its order. It reports whether the facade was
// killed at this point.
func (l *callerProxy) beforeDelivery() bool {
	newest := l.newest.Load()
	if newest == nil || !newest.facade.diesAt(afterHearing) {
		return false
	}
	newest.facade.kill()
	return true
}

// disconnect cuts the caller's connection, so that it reconnects, perhaps to another facade.
func (l *callerProxy) disconnect() {
	if newest := l.newest.Load(); newest != nil {
		newest.caller.Close()
	}
}
