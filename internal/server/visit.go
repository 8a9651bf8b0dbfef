package server

import (
	"context"
	"net/http"
	"time"
)

// visit is a request over HTTP, until its answer has left. An answer that is no call's, such as a page or a refusal, needs a
// place among those of its kind, by the address of its reader: whoever takes nothing of it keeps no more than these.
type visit struct {
	http.ResponseWriter
	door    *door
	request *http.Request
	holds   bool  // a call or a page has a place for the answer
	refusal *seat // what an answer has that is neither's
}

type visitKey struct{}

// visitOf is the visit of a request; nil where a handler is not behind a listener of the server.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// receiveVisits counts the answers of a handler.
func (d *door) receiveVisits(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{ResponseWriter: w, door: d}
		v.request = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		defer v.end()
		next.ServeHTTP(v, v.request)
	})
}

// WriteHeader implements http.ResponseWriter.
func (v *visit) WriteHeader(code int) {
	v.sit()
	v.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (v *visit) Write(p []byte) (int, error) {
	v.sit()
	return v.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (v *visit) Unwrap() http.ResponseWriter { return v.ResponseWriter }

// sit takes a place for an answer that has none. A refusal too many is not written: its stream or connection ends. What
// the client has sent, or will send, is dropped, as over HTTP/2 the standard library keeps it until the answer has left.
func (v *visit) sit() {
	if v.holds || v.refusal != nil {
		return
	}
	s, full := v.door.refusals.take(host(v.request.RemoteAddr), 1)
	if full != nil {
		v.door.unlogged.Add(1)
		panic(http.ErrAbortHandler)
	}
	v.refusal = &s
	if v.request.ProtoMajor > 1 {
		_ = v.request.Body.Close()
	}
}

// hold says that a call or a page has a place for the answer, until release.
func (v *visit) hold() (release func()) {
	if v == nil {
		return func() {}
	}
	v.holds = true
	return func() { v.holds = false }
}

// end waits until a refusal has left, or can't any more. Over HTTP/1.1 the connection's own goroutine does so.
func (v *visit) end() {
	if v.refusal == nil {
		return
	}
	if v.request.ProtoMajor > 1 {
		connection := http.NewResponseController(v.ResponseWriter)
		_ = connection.SetWriteDeadline(time.Now().Add(writeTimeout)) // HTTP/2 knows deadlines
		_ = connection.Flush()                                        // a reader that has gone needs nothing
	}
	v.refusal.leave()
}
