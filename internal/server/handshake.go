package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// origin is the network origin of a call.
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

// refusalTime is the time between the rejection of a call and the close of its connection, so that the rejection arrives.
const refusalTime = time.Second

// handshakes are transport credentials that log failed handshakes, and whose TLS connections can be closed by their calls.
type handshakes struct {
	credentials.TransportCredentials
	chain *chain
}

// closable is the TLS state of a connection, with the connection.
type closable struct {
	credentials.TLSInfo
	raw net.Conn
}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil && !errors.Is(err, io.EOF) && h.chain.refusals.Allow() { // EOF: a probe of the port
		h.chain.logger.Warn("TLS handshake failed", slog.String("peer", raw.RemoteAddr().String()), slog.Any("error", err))
	}
	if encrypted, ok := info.(credentials.TLSInfo); ok {
		info = closable{encrypted, raw}
	}
	return conn, info, err
}
