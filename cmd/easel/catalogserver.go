package main

import (
	"context"
	"errors"
	"io"
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
	routes := http.NewServeMux()
	routes.Handle(sandbox.BasePath+"/", box)
	if admin {
		routes.Handle(sandbox.AdminPath, box.AdminHandler())
	}
	c := &catalogServer{
		Sandbox: box,
		addr:    listener.Addr().String(),
		ended:   make(chan struct{}),
		server:  newCatalogHTTP(routes),
	}
	go func() {
		defer close(c.ended)
		c.err = c.server.Serve(listener)
	}()
	return c, nil
}

const (
	catalogHeaderTime = 10 * time.Second // for the headers of a request to arrive
	catalogBodyTime   = 30 * time.Second // and its body after them; the sandbox takes up to 1 MiB
	catalogIdleTime   = 2 * time.Minute  // between two requests
	catalogHeaders    = 32 << 10         // bytes of them
)

// newCatalogHTTP makes a server that nobody holds up by being slow. Answers may take as long as they
// do: faults hang, and drip.
func newCatalogHTTP(routes http.Handler) *http.Server {
	return &http.Server{
		Handler:           limitBodies(routes),
		ReadHeaderTimeout: catalogHeaderTime,
		IdleTimeout:       catalogIdleTime,
		MaxHeaderBytes:    catalogHeaders,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}

// limitBodies gives every body its time. The limit is lifted at its end: a server's own would end
// answers that take longer.
func limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(catalogBodyTime)) // every connection of ours can
			r.Body = &limitedBody{r.Body, func() { _ = control.SetReadDeadline(time.Time{}) }}
		}
		next.ServeHTTP(w, r)
	})
}

// limitedBody calls done at its end.
type limitedBody struct {
	io.ReadCloser
	done func()
}

// Read reads on.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.done()
	}
	return n, err
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
