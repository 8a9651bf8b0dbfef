package server

import (
	"context"
	"net"
	"time"
)

// ListenError reports that the address of a listener could not be bound.
type ListenError struct {
	Listener string // name of the listener: grpc, http, admin or metrics
	Err      error
}

// Error implements error.
func (e *ListenError) Error() string { return "listen for " + e.Listener + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

func closeAll(listeners map[string]net.Listener) {
	for _, l := range listeners {
		_ = l.Close() // the error does not matter, because no connection has been accepted yet
	}
}

// bind listens on a TCP address. It sets socket options so that the kernel closes an accepted connection within
// 45 s after the peer has vanished. On systems other than Linux, this can take longer if sent bytes are
// unacknowledged.
func bind(addr string) (net.Listener, error) {
	config := net.ListenConfig{
		Control:         limitUnacknowledged,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: 5 * time.Second, Count: 3},
	}
	return config.Listen(context.Background(), "tcp", addr)
}
