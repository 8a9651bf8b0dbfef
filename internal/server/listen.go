package server

import (
	"context"
	"net"
	"time"
)

// listener is one of the server's three.
type listener struct {
	name  string       // as it stands in logs
	addr  string       // to bind
	ready net.Listener // to use instead, and what was bound
}

func (c Config) listeners() [3]listener {
	return [3]listener{
		{name: "grpc", addr: c.GRPCAddr, ready: c.Listeners.GRPC},
		{name: "http", addr: c.HTTPAddr, ready: c.Listeners.HTTP},
		{name: "admin", addr: c.AdminAddr, ready: c.Listeners.Admin},
	}
}

// ListenError is an address that could not be bound.
type ListenError struct {
	Listener string // grpc, http or admin
	Err      error
}

// Error says which, and why.
func (e *ListenError) Error() string { return "listen for " + e.Listener + ": " + e.Err.Error() }

// Unwrap gives the reason.
func (e *ListenError) Unwrap() error { return e.Err }

// Listen binds the three addresses and logs each. On an error, which is a
// *ListenError, none stays bound.
// Serve calls it where the caller has not.
func (s *Server) Listen() error {
	listeners := s.config.listeners()
	for n := range listeners {
		l := &listeners[n]
		if l.ready != nil {
			continue
		}
		bound, err := bind(l.addr)
		if err != nil {
			closeAll(listeners[:n])
			return &ListenError{Listener: l.name, Err: err}
		}
		l.ready = bound
	}
	s.grpcListener, s.httpListener, s.adminListener = listeners[0].ready, listeners[1].ready, listeners[2].ready
	for _, l := range listeners {
		s.logger.Info("listening", "server", l.name, "addr", l.ready.Addr().String())
	}
	return nil
}

func closeAll(listeners []listener) {
	for _, l := range listeners {
		_ = l.ready.Close() // it takes no connections yet, so nothing is lost
	}
}

// bind listens on a TCP address. A peer that vanished without a word is noticed
// within 45 s, whether its connection is idle or has bytes under way.
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

// GRPCAddr is the address that the gRPC listener is bound to, "" before Listen.
func (s *Server) GRPCAddr() string { return boundAddr(s.grpcListener) }

// HTTPAddr is the address that the HTTP listener is bound to, "" before Listen.
func (s *Server) HTTPAddr() string { return boundAddr(s.httpListener) }

// AdminAddr is the address that the admin listener is bound to, "" before Listen.
func (s *Server) AdminAddr() string { return boundAddr(s.adminListener) }

func boundAddr(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}
