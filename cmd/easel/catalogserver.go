package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// catalogServer is a sandbox that listens.
type catalogServer struct {
	*sandbox.Sandbox
	addr   string
	server *http.Server
	failed chan error // why it stopped by itself
}

// startCatalog opens a sandbox and listens. With admin, everybody who reaches the address
// also rules over it.
func startCatalog(addr string, cfg sandbox.Config, admin bool) (*catalogServer, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	box, err := sandbox.Open(cfg)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	routes := http.NewServeMux()
	routes.Handle(sandbox.BasePath+"/", box)
	if admin {
		routes.Handle(sandbox.AdminPath, box.AdminHandler())
	}
	c := &catalogServer{
		Sandbox: box,
		addr:    listener.Addr().String(),
		failed:  make(chan error, 1),
		server: &http.Server{
			Handler:           routes,
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		},
	}
	go func() { c.failed <- c.server.Serve(listener) }()
	return c, nil
}

// baseURL is what a client of the catalog is configured with.
func (c *catalogServer) baseURL() string { return "http://" + c.addr + sandbox.BasePath }

// wait returns when ctx ends, or earlier with the reason why the server stopped by itself.
func (c *catalogServer) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.failed:
		c.failed <- err // close reads it too
		return err
	}
}

// close ends requests that still run after a moment, and then the sandbox.
func (c *catalogServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		c.server.Close()
	}
	<-c.failed
	_ = c.Sandbox.Close() // nothing is left that could be done about it
}
