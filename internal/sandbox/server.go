package sandbox

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"
)

const (
	headerTime  = 10 * time.Second // for the headers of a request to arrive
	bodyTime    = 30 * time.Second // and its body after them; the sandbox takes up to 1 MiB
	idleTime    = 2 * time.Minute  // between two requests
	mostHeaders = 32 << 10         // bytes of them
)

// Server serves the catalog over HTTP. With admin, everybody who reaches it also rules over the catalog.
func (s *Sandbox) Server(admin bool) *http.Server {
	routes := http.NewServeMux()
	routes.Handle(BasePath+"/", s)
	if admin {
		routes.Handle(AdminPath, s.AdminHandler())
	}
	return newServer(routes)
}

// newServer makes a server that nobody holds up by being slow. Answers may take as long as they
// do: faults hang, and drip.
func newServer(routes http.Handler) *http.Server {
	return &http.Server{
		Handler:           limitBodies(routes),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    mostHeaders,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}

// limitBodies gives every body its time. The limit is lifted at its end: a server's own would end
// answers that take longer.
func limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // every connection of ours can
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
