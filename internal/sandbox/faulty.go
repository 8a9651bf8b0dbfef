package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// applyFault applies a fault to a request.
func (s *Sandbox) applyFault(f *Fault, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	bufferBody(r)
	if f.Delay > 0 {
		s.sleep(f.Delay, nil)
	}
	if !f.answers() {
		s.alterAnswer(f, w, r, serve)
		return
	}
	if f.AfterCommit {
		serve(&bufferedAnswer{head: http.Header{}}, r) // nobody will see it
	}
	s.answer(f, w, r)
}

// answer is the fault's own answer.
func (s *Sandbox) answer(f *Fault, w http.ResponseWriter, r *http.Request) {
	f.addHeader(w.Header())
	switch {
	case f.Hang:
		select {
		case <-r.Context().Done():
		case <-s.done:
		}
		panic(http.ErrAbortHandler)
	case f.Reset:
		reset(w)
	case f.Redirect != "":
		w.Header().Set("Location", f.Redirect)
		w.WriteHeader(cmp.Or(f.Status, http.StatusFound))
	case f.Oversize > 0:
		oversize(w, cmp.Or(f.Status, http.StatusOK), f.Oversize)
	default:
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(cmp.Or(f.Status, http.StatusOK))
		write(w, []byte(f.Body))
	}
}

// bufferBody reads the request's body now, so that the handler finds it even if the client leaves. A server
// also notices a leaving client only once the body is read.
func bufferBody(r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
}

// sleep waits for a time. The end of the sandbox ends it, and so does gone, if it is given.
func (s *Sandbox) sleep(d time.Duration, gone <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	case <-s.done:
	}
}

// reset cuts the connection at once, unsent bytes included.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the client sees an orderly end, which also is a lost answer
	}
	_ = conn.Close()
}

// oversize streams one JSON string.
func oversize(w http.ResponseWriter, status int, size int64) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	block := []byte(strings.Repeat("x", 32<<10))
	_, err := io.WriteString(w, `"`)
	for size > 0 && err == nil {
		var n int
		n, err = w.Write(block[:min(size, int64(len(block)))])
		size -= int64(n)
	}
	if err == nil {
		write(w, []byte(`"`))
	}
}

// write sends a part of an answer. It ignores errors, as the client may have gone.
func write(w io.Writer, p []byte) { _, _ = w.Write(p) }

// alterAnswer sends the handler's own answer, altered by the fault.
func (s *Sandbox) alterAnswer(f *Fault, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	b := &faultyWriter{s: s, f: f, w: w, r: r, untilCut: f.CutAfter, lengthLeft: -1}
	if f.Set == nil {
		serve(b, r)
		b.finish()
		return
	}
	kept := &bufferedAnswer{head: w.Header(), status: http.StatusOK}
	serve(kept, r)
	body := changed(kept.body.Bytes(), f.Set)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	b.WriteHeader(kept.status)
	write(b, body)
	b.finish()
}

// bufferedAnswer holds an answer back, so that it can be changed.
type bufferedAnswer struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (k *bufferedAnswer) Header() http.Header         { return k.head }
func (k *bufferedAnswer) WriteHeader(status int)      { k.status = status }
func (k *bufferedAnswer) Write(p []byte) (int, error) { return k.body.Write(p) }

// changed sets members of a JSON object, or of the objects in a JSON array. Other bodies stay as they are.
func changed(body []byte, set map[string]any) []byte {
	var v any
	if decode(body, &v) != nil {
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
		for name, value := range set {
			if one[name] = value; value == nil {
				delete(one, name)
			}
		}
	}
	out, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return out
}

// faultyWriter is a response writer that sends a wrong length, sends slowly, or cuts.
type faultyWriter struct {
	s          *Sandbox
	f          *Fault
	w          http.ResponseWriter
	r          *http.Request
	untilCut   int64 // until the cut
	lengthLeft int64 // of the promised Content-Length, where it is less than the truth; else negative
	sent       bool
}

func (b *faultyWriter) Header() http.Header { return b.w.Header() }

func (b *faultyWriter) WriteHeader(status int) {
	if b.sent {
		return
	}
	b.sent = true
	b.f.addHeader(b.w.Header())
	if size, err := strconv.ParseInt(b.w.Header().Get("Content-Length"), 10, 64); err == nil && b.f.ContentLengthDelta != 0 {
		size = max(size+b.f.ContentLengthDelta, 0)
		b.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		if b.f.ContentLengthDelta < 0 {
			b.lengthLeft = size
		}
	}
	b.w.WriteHeader(status)
}

func (b *faultyWriter) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	if b.f.Cut && int64(len(p)) >= b.untilCut {
		_, _ = b.send(p[:b.untilCut]) // the connection ends either way
		b.cut()
	}
	b.untilCut -= int64(len(p))
	if b.lengthLeft < 0 {
		return b.send(p)
	}
	n, err := b.send(p[:min(int64(len(p)), b.lengthLeft)]) // the server refuses to send more than was promised
	b.lengthLeft -= int64(n)
	if err != nil {
		return n, err
	}
	return len(p), nil
}

// cut ends the connection, after the bytes that were written before.
func (b *faultyWriter) cut() {
	_ = http.NewResponseController(b.w).Flush() // the connection ends either way
	panic(http.ErrAbortHandler)
}

// finish cuts an answer without a body, for which Write was never called.
func (b *faultyWriter) finish() {
	if b.f.Cut && b.untilCut == 0 {
		b.cut()
	}
}

func (b *faultyWriter) send(p []byte) (int, error) {
	if b.f.Drip == 0 {
		return b.w.Write(p)
	}
	pause := time.Duration(float64(time.Second) / b.f.Drip)
	for i := range p {
		if _, err := b.w.Write(p[i : i+1]); err != nil {
			return i, err
		}
		if err := http.NewResponseController(b.w).Flush(); err != nil {
			return i, err
		}
		b.s.sleep(pause, b.r.Context().Done())
		if b.r.Context().Err() != nil {
			return i, b.r.Context().Err()
		}
	}
	return len(p), nil
}
