package rest

import (
	"errors"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/service"
)

// deadlineChunk is the maximum number of bytes that are written under one deadline. It is small, so that even a slow client
// can read that many bytes in time.
const deadlineChunk = 32 << 10

// errNotRead means that the client did not read a chunk in time.
var errNotRead = errors.New("the client did not read in time")

// deadlineWriter aborts a response if the client does not read a chunk in time. It sets a deadline before each chunk and removes
// it afterwards, because over HTTP/2 the deadline would also end an idle stream.
type deadlineWriter struct {
	http.ResponseWriter
	connection *http.ResponseController
	timeout    time.Duration
}

// limitWrites returns a handler that calls next with a [deadlineWriter].
func limitWrites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited := &deadlineWriter{ResponseWriter: w, connection: http.NewResponseController(w), timeout: service.DefaultSendTimeout}
		defer limited.setDeadline() // sets a deadline for the data that the server flushes after the handler has returned
		next.ServeHTTP(limited, r)
	})
}

// allowPauses sets the write timeout of a response to the timeout for downloads. This timeout is longer than the one for other
// responses, because a client that plays or saves a file may stop reading for a while on purpose.
func allowPauses(w http.ResponseWriter) {
	for {
		if limited, ok := w.(*deadlineWriter); ok {
			limited.timeout = service.DefaultDownloadTimeout
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
func (w *deadlineWriter) Write(p []byte) (written int, err error) {
	for {
		chunk := p[written:min(len(p), written+deadlineChunk)]
		began := time.Now()
		w.setDeadline()
		n, err := w.ResponseWriter.Write(chunk)
		w.liftDeadline()
		if err != nil && time.Since(began) >= w.timeout {
			err = errNotRead // errNotRead is more specific than the error from HTTP/2
		}
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// Flush implements http.Flusher.
func (w *deadlineWriter) Flush() { _ = w.FlushError() }

// FlushError flushes the response under a write deadline. It is called by http.ResponseController.
func (w *deadlineWriter) FlushError() error {
	w.setDeadline()
	defer w.liftDeadline()
	return w.connection.Flush()
}

// Unwrap allows http.ResponseController to reach the connection.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// setDeadline and liftDeadline ignore the error, because all connections except those in tests support deadlines.
func (w *deadlineWriter) setDeadline()  { _ = w.connection.SetWriteDeadline(time.Now().Add(w.timeout)) }
func (w *deadlineWriter) liftDeadline() { _ = w.connection.SetWriteDeadline(time.Time{}) }
