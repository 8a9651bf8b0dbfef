package server

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
)

func pipe() *bufconn.Listener { return bufconn.Listen(1 << 16) }

func pipeDialer(pipe *bufconn.Listener) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
}

func grpcDialer(pipe *bufconn.Listener) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
}

// muteConn is the connection of a client whose host vanishes: what it writes goes
// nowhere, and nobody is told.
type muteConn struct {
	net.Conn
	muted atomic.Bool
}

func (c *muteConn) Write(p []byte) (int, error) {
	if c.muted.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func pingEvery(interval time.Duration) grpc.DialOption {
	return grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: interval, Timeout: time.Second, PermitWithoutStream: true})
}
