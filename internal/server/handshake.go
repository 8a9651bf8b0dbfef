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

// origin describes a call's client and the client's connection.
type origin struct {
	peer            string               // network address of the client
	tls             *tls.ConnectionState // nil without TLS
	idempotencyKeys []string             // values of the Idempotency-Key headers of a REST request
	disconnect      func()               // closes the call's TLS connection after refusalTime; does nothing for a REST request or a connection without TLS
}

// originOfPeer returns the origin of a call to the public server.
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

// refusalTime is the delay before the connection of a rejected call is closed, so that the client can receive the error.
const refusalTime = time.Second

// handshakes wraps transport credentials. It logs failed handshakes, and makes it possible to close the TLS connection
// of a call.
type handshakes struct {
	credentials.TransportCredentials
	chain *chain
}

// closable contains the TLS information of a connection, and the connection itself, so that a call can close it.
type closable struct {
	credentials.TLSInfo
	raw net.Conn
}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil && !errors.Is(err, io.EOF) && h.chain.refusals.Allow() { // EOF is not logged, because port probes cause it
		h.chain.logger.Warn("TLS handshake failed", slog.String("peer", raw.RemoteAddr().String()), slog.Any("error", err))
	}
	if encrypted, ok := info.(credentials.TLSInfo); ok {
		info = closable{encrypted, raw}
	}
	return conn, info, err
}
