package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// origin is the place that a call comes from.
type origin struct {
	peer            string               // network address
	tls             *tls.ConnectionState // nil without TLS
	idempotencyKeys []string             // the Idempotency-Key headers of a REST request
	disconnect      func()               // closes the connection
}

// originOfPeer returns the origin of a call of the public server.
func originOfPeer(ctx context.Context) origin {
	from := origin{disconnect: func() {}}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return from
	}
	from.peer = p.Addr.String()
	if info, ok := p.AuthInfo.(closable); ok {
		from.tls = &info.State
		from.disconnect = func() { time.AfterFunc(refusalTime, func() { _ = info.raw.Close() }) }
	}
	return from
}

// refusalTime is the time that the refusal of a call has to reach its caller before the connection is closed.
const refusalTime = time.Second

// handshakes are transport credentials that log clients of the wrong protocol, and whose TLS connections can be closed by
// their calls.
type handshakes struct {
	credentials.TransportCredentials
	log *protocolLog
}

// Messages of a protocolLog.
const (
	tlsClient       = "TLS client on plaintext port"
	plaintextClient = "plaintext client on TLS port"
)

// tlsHandshake is the type of the first record of TLS.
const tlsHandshake = 22

// protocolLog logs clients that speak TLS to a plaintext port, or the reverse, at most once a second.
type protocolLog struct {
	logger    *slog.Logger
	sometimes rate.Sometimes
}

func (l *protocolLog) write(message string, client net.Conn) {
	l.sometimes.Do(func() { l.logger.Warn(message, slog.String("peer", client.RemoteAddr().String())) })
}

// closable is the TLS state of a connection, with the connection.
type closable struct {
	credentials.TLSInfo
	raw net.Conn
}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		if _, isPlaintext := errors.AsType[tls.RecordHeaderError](err); isPlaintext {
			h.log.write(plaintextClient, raw)
		}
		return nil, nil, err
	}
	if encrypted, ok := info.(credentials.TLSInfo); ok {
		return conn, closable{encrypted, raw}, nil
	}
	return &plaintextConn{Conn: conn, log: h.log}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.log}
}

// plaintextConn is a plaintext connection whose first byte is looked at.
type plaintextConn struct {
	net.Conn
	log  *protocolLog
	read bool
}

// Read implements net.Conn.
func (c *plaintextConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.read && p[0] == tlsHandshake {
		c.log.write(tlsClient, c.Conn)
	}
	c.read = c.read || n > 0
	return n, err
}
