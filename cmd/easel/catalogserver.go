package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// catalogServer is a listening sandbox.
type catalogServer struct {
	*sandbox.Sandbox
	addr   string
	server *http.Server
	ended  chan struct{} // closed when it no longer listens
	err    error         // reason, once ended is closed
}

// startCatalog opens a sandbox and listens. With admin, every client that reaches the address can also administer it.
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

// baseURL returns the URL for a client of the catalog.
func (c *catalogServer) baseURL() string { return "http://" + c.addr + sandbox.BasePath }

// wait waits until ctx is done, or returns the reason why the server stopped before.
func (c *catalogServer) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.ended:
		return c.err
	}
}

// close stops the server, which aborts requests after a second, and closes the sandbox. ctx is usually done already.
func (c *catalogServer) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
	<-c.ended
	_ = c.Close() // the error has no remedy
}
