//go:build unix

package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// startRelay listens on a free port and returns its address. It calls handleConn for each accepted connection.
func (w *world) startRelay(t *testing.T, config net.ListenConfig, handleConn func(near *net.TCPConn)) string {
	t.Helper()
	listener, err := config.Listen(w.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(w.ctx, func() { listener.Close() })
	w.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(w.ctx, func() { conn.Close() })()
				handleConn(conn.(*net.TCPConn))
			})
		}
	})
	return listener.Addr().String()
}

// narrowBuffers sets a small maximum segment size and a small receive buffer. The kernel then accepts only a few bytes
// at a time, so writing a large order takes a while.
func narrowBuffers(_, _ string, raw syscall.RawConn) (err error) {
	failed := raw.Control(func(fd uintptr) {
		err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096))
	})
	return errors.Join(failed, err)
}

// orderLine is the start of the request line of an order.
var orderLine = []byte("POST /api/v1/api/catalog/generations ")

// largeBody is the size in bytes of a request body that is too large for a single write. When the proxy receives the
// first bytes, the Easel server that sends the request is still writing.
const largeBody = 256 << 10

// forwardToCatalog forwards the traffic between the catalog and one of the given Easel servers. This server has opened
// the connection near.
func (w *world) forwardToCatalog(near *net.TCPConn, facades []*supervisor) {
	x := &exchange{world: w, near: near, facade: ownerOf(near, facades), catalog: w.catalog.runningProcess(), unread: bufio.NewReader(near), dropped: near}
	if x.facade == nil || x.catalog == nil {
		return
	}
	up, err := net.Dial("tcp", x.catalog.HTTP)
	if err != nil {
		return
	}
	defer up.Close()
	defer context.AfterFunc(w.ctx, func() { up.Close() })()
	for answers := bufio.NewReader(up); x.forwardRequest(up, answers); {
	}
}

// ownerOf returns the Easel server at the other end of a connection, or nil if it is unknown.
func ownerOf(near net.Conn, facades []*supervisor) *proctest.Process {
	if len(facades) == 1 {
		return facades[0].runningProcess()
	}
	for _, owner := range facades {
		if p := owner.runningProcess(); p != nil && ownsPeerOf(p, near) {
			return p
		}
	}
	return nil
}

// forwardRequest forwards a request and its response, or only a part of them if a fault happens. It reports whether the
// connection stays open.
func (x *exchange) forwardRequest(up net.Conn, answers *bufio.Reader) bool {
	request, err := readHead(x.unread)
	if err != nil {
		return false
	}
	there, back := []stage{requesting}, []stage{responding}
	if bytes.HasPrefix(request.head, orderLine) {
		there, back = append(there, sending), append(back, answering)
		if request.size >= largeBody {
			there = append(there, sendingLarge)
		}
	}
	x.size = request.size
	whole := io.MultiReader(bytes.NewReader(request.head), io.LimitReader(x.unread, int64(request.size)))
	if f := x.world.drawFault(there...); f != nil {
		_, _ = io.CopyN(up, whole, int64(f.part(request))) // fails only if the catalog is killed too
		if x.world.injectFault(f, x) {
			return false
		}
	}
	if _, err := io.Copy(up, whole); err != nil {
		return false
	}
	answer, body, err := readMessage(answers)
	if err != nil {
		return false
	}
	text := append(answer.head, body...)
	if f := x.world.drawFault(back...); f != nil {
		_, _ = x.near.Write(text[:f.part(answer)])
		return !x.world.injectFault(f, x)
	}
	_, err = x.near.Write(text)
	return err == nil
}

// forwardToFacade forwards the traffic between the caller and a random Easel server. It parses responses to detect the
// response to an order.
func (c *caller) forwardToFacade(near *net.TCPConn) {
	facade := c.world.anyFacade()
	if facade == nil {
		return
	}
	address := facade.GRPC
	if c.overREST {
		address = facade.HTTP
	}
	up, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer up.Close()
	x := &exchange{world: c.world, facade: facade, near: near}
	c.newest.Store(x)
	c.world.work.Go(func() {
		_, _ = io.Copy(up, near)
		up.Close()
	})
	for answers := bufio.NewReader(up); x.forwardAnswer(answers, c.overREST); {
	}
}

// forwardAnswer forwards the next part of a response to the caller, unless a fault happens. It reports whether the
// connection stays open.
func (x *exchange) forwardAnswer(answers *bufio.Reader, overREST bool) bool {
	text, placed, err := readPart(answers, overREST)
	if err != nil {
		return false
	}
	if placed {
		if f := x.world.drawFault(returning); f != nil {
			_, _ = x.near.Write(text[:f.part(message{head: text})])
			return !x.world.injectFault(f, x)
		}
	}
	_, err = x.near.Write(text)
	return err == nil
}

const (
	frameHeaders = 1
	endOfStream  = 1
)

// readPart reads the next part of an Easel server's response. isPlaced reports whether the part starts a successful
// response. Such a response to an order shows that the server knows the order's generation.
func readPart(answers *bufio.Reader, overREST bool) (text []byte, isPlaced bool, err error) {
	if overREST {
		m, body, err := readMessage(answers)
		return append(m.head, body...), bytes.HasPrefix(m.head, []byte("HTTP/1.1 200 ")), err
	}
	head := make([]byte, 9)
	if _, err := io.ReadFull(answers, head); err != nil {
		return nil, false, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
	_, err = io.ReadFull(answers, payload)
	// a gRPC response that consists only of headers reports an error
	return append(head, payload...), head[3] == frameHeaders && head[4]&endOfStream == 0, err
}

// message is an HTTP/1.1 message of which only the head has been read.
type message struct {
	head []byte
	size int // size of the body in bytes
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
			return m, errors.New("a relay can't read chunks")
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
