package server

import (
	"context"
	"net"
	"time"
)

// ListenError is an address that could not be bound.
type ListenError struct {
	Listener string // grpc, http, admin or metrics
	Err      error
}

// Error says which, and why.
func (e *ListenError) Error() string { return "listen for " + e.Listener + ": " + e.Err.Error() }

// Unwrap gives the reason.
func (e *ListenError) Unwrap() error { return e.Err }

func closeAll(listeners []listener) {
	for _, l := range listeners {
		_ = l.ready.Close() // it takes no connections yet, so nothing is lost
	}
}

// bind listens on a TCP address. The kernel notices a vanished peer within 45 s, whether its connection
// is idle or has bytes under way.
func bind(addr string) (net.Listener, error) {
	config := net.ListenConfig{
		Control: limitUnacknowledged,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable:   true,
			Idle:     keepaliveIdle,
			Interval: 5 * time.Second,
			Count:    3,
		},
	}
	return config.Listen(context.Background(), "tcp", addr)
}
