package main

import (
	"context"
	"errors"
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
	ended  chan struct{} // closed when it listens no more
	err    error         // why, once it has ended
}

// startCatalog opens a sandbox and listens. With admin, everybody who reaches the address
// also rules over it.
func startCatalog(ctx context.Context, addr string, cfg sandbox.Config, admin bool) (*catalogServer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, wrongSetting("EASEL_SANDBOX_ADDR", err)
	}
	box, err := sandbox.Open(cfg)
	if err != nil {
		return nil, wrongSetting("EASEL_SANDBOX_DB", errors.Join(err, listener.Close()))
	}
	c := &catalogServer{Sandbox: box, addr: listener.Addr().String(), ended: make(chan struct{}), server: box.Server(admin)}
	go func() {
		defer close(c.ended)
		c.err = c.server.Serve(listener)
	}()
	return c, nil
}

// baseURL is what a client of the catalog is configured with.
func (c *catalogServer) baseURL() string { return "http://" + c.addr + sandbox.BasePath }

// wait returns when ctx ends, or earlier with the reason why the server stopped by itself.
func (c *catalogServer) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.ended:
		return c.err
	}
}

// close ends requests that still run after a moment, and then the sandbox. That ctx has
// ended is why it is called.
func (c *catalogServer) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
	<-c.ended
	_ = c.Close() // nothing is left that could be done about it
}
