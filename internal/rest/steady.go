package rest

import (
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/service"
)

// steadyPiece is how much is written under one limit, so that a slow client is told from a stuck
// one.
const steadyPiece = 32 << 10

// steadyWriter limits how long a client may take no byte. The limit is set for each
// piece and lifted after: in HTTP/2 it would else end a stream that has nothing to
// send for a while.
type steadyWriter struct {
	http.ResponseWriter
	connection *http.ResponseController
	patience   time.Duration
}

// steadyWrites puts the limit on every answer.
func steadyWrites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		steady := &steadyWriter{ResponseWriter: w, connection: http.NewResponseController(w), patience: service.DefaultSendTimeout}
		defer steady.limit() // what is left in buffers is written after the handler
		next.ServeHTTP(steady, r)
	})
}

// allowPauses gives the client of an answer the patience that a download has over gRPC:
// who plays or saves a file may pause on purpose.
func allowPauses(w http.ResponseWriter) {
	for {
		if steady, ok := w.(*steadyWriter); ok {
			steady.patience = service.DefaultDownloadTimeout
			return
		}
		wrapped, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = wrapped.Unwrap()
	}
}

// Write implements io.Writer.
func (w *steadyWriter) Write(p []byte) (written int, err error) {
	for {
		piece := p[written:min(len(p), written+steadyPiece)]
		w.limit()
		n, err := w.ResponseWriter.Write(piece)
		w.unlimit()
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// Flush implements http.Flusher.
func (w *steadyWriter) Flush() { _ = w.FlushError() }

// FlushError is what http.ResponseController calls to flush.
func (w *steadyWriter) FlushError() error {
	w.limit()
	defer w.unlimit()
	return w.connection.Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (w *steadyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A connection that knows no deadline goes without: only tests have such.
func (w *steadyWriter) limit()   { _ = w.connection.SetWriteDeadline(time.Now().Add(w.patience)) }
func (w *steadyWriter) unlimit() { _ = w.connection.SetWriteDeadline(time.Time{}) }
