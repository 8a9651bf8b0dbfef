package server

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
)

// watched are credentials whose connections the door watches: behind encryption, where frames can be read.
type watched struct {
	credentials.TransportCredentials
	log *protocolLog
}

// Messages of a protocolLog.
const (
	tlsClient       = "TLS client on plaintext port"
	plaintextClient = "plaintext client on TLS port"
)

// protocolLog logs clients that speak TLS to a plaintext port, or the reverse, at most once a second.
type protocolLog struct {
	logger    *slog.Logger
	sometimes rate.Sometimes
}

func (l *protocolLog) write(message string, client net.Conn) {
	l.sometimes.Do(func() { l.logger.Warn(message, slog.String("peer", client.RemoteAddr().String())) })
}

// ServerHandshake implements credentials.TransportCredentials.
func (w watched) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	plain, info, err := w.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		if _, isPlaintext := errors.AsType[tls.RecordHeaderError](err); isPlaintext {
			w.log.write(plaintextClient, raw)
		}
		return nil, nil, err
	}
	return &conn{Conn: plain, raw: raw, log: w.log, frames: frames{skip: prefaceBytes}}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (w watched) Clone() credentials.TransportCredentials {
	return watched{w.TransportCredentials.Clone(), w.log}
}

// conn is a connection of gRPC.
type conn struct {
	net.Conn
	raw    net.Conn
	log    *protocolLog
	frames frames
	ending atomic.Int32 // contexts of its calls that are being ended
}

var errTinyFrames = errors.New("too many tiny frames")

// Read implements net.Conn. It ends a connection whose messages come in crumbs.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.frames.skip == prefaceBytes && p[0] == tlsHandshake {
		c.log.write(tlsClient, c.raw)
	}
	if !c.frames.read(p[:n]) {
		_ = c.raw.Close()
		return 0, errTinyFrames
	}
	return n, err
}

// RemoteAddr implements net.Conn. The address leads back to the connection: it is what the library tells of it.
func (c *conn) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

type connAddr struct {
	net.Addr
	conn *conn
}

// connContext is the context of a connection. The library makes the context of each call directly below it, and does not
// end that of a call that the door refuses: its timer would stay for as long as the caller likes. What the context package
// gives AfterFunc ends it.
type connContext struct {
	context.Context //nolint:containedctx // it is one
	conn            *conn
	done            chan struct{} // never closed: the library ends the calls of a connection that ends
	newest          func()        // ends the context that was made last
}

type connKey struct{}

func newConnContext(ctx context.Context, c *conn) *connContext {
	return &connContext{Context: ctx, conn: c, done: make(chan struct{})}
}

// connContextOf is the context of the connection that a call has come on; nil in memory.
func connContextOf(ctx context.Context) *connContext {
	c, _ := ctx.Value(connKey{}).(*connContext)
	return c
}

// Value implements context.Context.
func (c *connContext) Value(key any) any {
	if key == (connKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Done implements context.Context.
func (c *connContext) Done() <-chan struct{} { return c.done }

// Err implements context.Context: it is why a call's context is ended.
func (c *connContext) Err() error {
	if c.conn.ending.Load() > 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// AfterFunc is what the context package calls for each context that is derived from this one.
func (c *connContext) AfterFunc(end func()) (stop func() bool) {
	c.newest = end
	return func() bool { return true }
}

// take gives what ends the context of the call whose headers have come.
func (c *connContext) take() (end func()) {
	end, c.newest = c.newest, func() {}
	return end
}

// end ends the context of a call.
func (c *conn) end(cancel func()) {
	c.ending.Add(1)
	defer c.ending.Add(-1)
	cancel()
}

const (
	prefaceBytes = 24 // that a connection of HTTP/2 begins with
	headerLength = 9  // of a frame
	tlsHandshake = 22 // type of the first record of TLS
	tinyFrame    = 512
	// tinyFrames is how many tiny frames a connection may send without a message's end, beside callFrames for each call that is let in.
	// Each takes some hundred bytes until its message has come whole.
	tinyFrames, callFrames = 4096, 16
)

// frames counts the frames that come in on a connection.
type frames struct {
	header [headerLength]byte
	have   int // bytes of the header
	skip   int // bytes before the next header
	tiny   int
}

// read reads what has come. It reports false where too many frames are tiny.
func (f *frames) read(p []byte) bool {
	for len(p) > 0 {
		if n := min(f.skip, len(p)); n > 0 {
			f.skip, p = f.skip-n, p[n:]
			continue
		}
		n := copy(f.header[f.have:], p)
		f.have, p = f.have+n, p[n:]
		if f.have == headerLength {
			f.have = 0
			f.count()
		}
	}
	return f.tiny <= tinyFrames
}

// count counts a frame by its header: its length, its type and its flags.
func (f *frames) count() {
	const data, endStream = 0, 1
	f.skip = int(binary.BigEndian.Uint32(f.header[:4]) >> 8)
	switch kind, flags := f.header[3], f.header[4]; {
	case kind == data && f.skip >= tinyFrame:
		f.tiny = max(0, f.tiny-1)
	case kind == data && flags&endStream == 0:
		f.tiny++
	}
}

// allow lets a call have some tiny frames. The goroutine that reads calls it, for calls that are let in.
func (f *frames) allow() { f.tiny = max(0, f.tiny-callFrames) }
