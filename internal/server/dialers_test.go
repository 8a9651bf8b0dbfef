package server

import (
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

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
