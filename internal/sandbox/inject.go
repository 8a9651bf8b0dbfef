package sandbox

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// applyFault serves a request to which the fault f applies. normalHandler is the handler that serves the request if there is no
// fault.
func (s *Sandbox) applyFault(f *Fault, w http.ResponseWriter, r *http.Request, normalHandler http.HandlerFunc) {
	bufferBody(r)
	if f.Delay > 0 {
		s.sleep(time.Duration(f.Delay), nil)
	}
	if !f.replacesResponse() {
		s.alterResponse(f, w, r, normalHandler)
		return
	}
	if f.AfterCommit {
		normalHandler(&buffer{head: http.Header{}}, r) // process the request, but discard the response
	}
	s.sendResponse(f, w, r)
}

// sendResponse sends the fault's response, which replaces the handler's response.
func (s *Sandbox) sendResponse(f *Fault, w http.ResponseWriter, r *http.Request) {
	f.addHeader(w.Header())
	switch {
	case f.Hang:
		select {
		case <-r.Context().Done():
		case <-s.life.Done():
		}
		panic(http.ErrAbortHandler)
	case f.Reset:
		resetConnection(w)
	case f.Redirect != "":
		w.Header().Set("Location", f.Redirect)
		w.WriteHeader(cmp.Or(f.Status, http.StatusFound))
	case f.Oversize > 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(cmp.Or(f.Status, http.StatusOK))
		writePart(w, []byte(`"`))
		_, _ = io.CopyN(w, letters{}, f.Oversize) // the client may have disconnected
		writePart(w, []byte(`"`))
	default:
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(cmp.Or(f.Status, http.StatusOK))
		writePart(w, []byte(f.Body))
	}
}

// letters is a reader of an endless series of the letter x.
type letters struct{}

// Read implements io.Reader.
func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// bufferBody reads the body of a request into memory. The handler can then use the body even if the client disconnects, and the
// server can detect a disconnect.
func bufferBody(r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
}

// sleep waits for a duration. It returns earlier if the sandbox or the given channel is closed. The channel may be nil.
func (s *Sandbox) sleep(d time.Duration, canceled <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-canceled:
	case <-s.life.Done():
	}
}

// resetConnection aborts the connection with a TCP reset. Unsent bytes are lost.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // an HTTP/2 connection can't be hijacked
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // makes Close reset the connection instead of closing it gracefully
	}
	_ = conn.Close()
}

// writePart writes a part of a response. It ignores errors, because the client may have disconnected.
func writePart(w io.Writer, p []byte) { _, _ = w.Write(p) }

// alterResponse sends the handler's response, altered by the fault.
func (s *Sandbox) alterResponse(f *Fault, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	kept := &buffer{head: w.Header(), status: http.StatusOK}
	serve(kept, r)
	f.addHeader(w.Header())
	body := kept.body.Bytes()
	if f.Set != nil {
		body = withMembers(body, f.Set)
	}
	if w.Header().Get("Content-Length") != "" {
		length := max(len(body)+int(f.ContentLengthDelta), 0)
		w.Header().Set("Content-Length", strconv.Itoa(length))
		body = body[:min(length, len(body))] // writing more bytes than Content-Length announces would fail
	}
	w.WriteHeader(kept.status)
	if cut := int(f.CutAfter); f.Cut && cut <= len(body) {
		s.sendBody(f, w, r, body[:cut])
		_ = http.NewResponseController(w).Flush() // an error can be ignored, because the connection is aborted next
		panic(http.ErrAbortHandler)
	}
	s.sendBody(f, w, r, body)
}

// sendBody sends a body. If f.Drip is set, it sends that number of bytes per second.
func (s *Sandbox) sendBody(f *Fault, w http.ResponseWriter, r *http.Request, body []byte) {
	if f.Drip == 0 {
		writePart(w, body)
		return
	}
	pause := time.Duration(float64(time.Second) / f.Drip)
	for i := range body {
		writePart(w, body[i:i+1])
		if err := http.NewResponseController(w).Flush(); err != nil || r.Context().Err() != nil {
			return
		}
		s.sleep(pause, r.Context().Done())
	}
}

// buffer is a response writer that stores the response in memory, so that a fault can alter or discard it.
type buffer struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (b *buffer) Header() http.Header { return b.head }

// WriteHeader implements [http.ResponseWriter].
func (b *buffer) WriteHeader(status int) { b.status = status }

// Write implements [http.ResponseWriter].
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }

// withMembers applies newMembers to a JSON body, and returns the result. A member is removed if its value in newMembers is nil,
// and otherwise added or replaced. If body is an array, each object in the array is changed. If body is neither an object nor
// an array, its value does not change.
func withMembers(body []byte, newMembers map[string]any) []byte {
	var v any
	if decodeJSON(body, &v) != nil {
		return body
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	for _, item := range list {
		one, isObject := item.(map[string]any)
		if !isObject {
			continue
		}
		for name, value := range newMembers {
			if one[name] = value; value == nil {
				delete(one, name)
			}
		}
	}
	return encodeJSON(v)
}
