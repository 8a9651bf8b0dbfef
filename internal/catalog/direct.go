package catalog

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// direct sends the requests that only read, each on the goroutine of its caller. The stock
// transport has two goroutines for each connection, which hand a request and its answer to and
// fro: with them a call costs a tenth more (make bench-P9). It dials, encrypts and bounds as the
// stock one does, and reads answers by the same code. Orders, results, and all where a proxy is
// set, are not for it; without it, [Apart] sends everything by the stock one.
type direct struct {
	base *http.Transport
	room chan struct{} // a place for each request under way
	idle lines
}

// onlyHTTP1 is what direct speaks.
var onlyHTTP1 = func() (p http.Protocols) { p.SetHTTP1(true); return p }()

// errHandshake says what took too long. The caller's own time may be far from over.
var errHandshake = errors.New("no TLS handshake in time")

// newDirect gives nil where the settings of base ask for more than direct can do.
func newDirect(base *http.Transport) *direct {
	if !quietKnown || base.Proxy != nil || base.DialContext == nil || base.DialTLSContext != nil ||
		base.DialTLS != nil || base.DisableKeepAlives || base.ResponseHeaderTimeout != 0 || //nolint:staticcheck // who still sets it means it
		base.Protocols == nil || *base.Protocols != onlyHTTP1 || base.MaxConnsPerHost <= 0 || base.MaxIdleConnsPerHost <= 0 || base.IdleConnTimeout <= 0 ||
		base.TLSHandshakeTimeout <= 0 || base.MaxResponseHeaderBytes <= 0 {
		return nil
	}
	return &direct{
		base: base, room: make(chan struct{}, base.MaxConnsPerHost),
		idle: lines{most: base.MaxIdleConnsPerHost, longest: base.IdleConnTimeout},
	}
}

// suits reports whether a request is one for direct.
func (d *direct) suits(r *http.Request) bool {
	odd := func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '%' }
	return d != nil && r.Method == http.MethodGet && r.Body == nil && !strings.ContainsFunc(r.URL.Host, odd)
}

// RoundTrip implements http.RoundTripper for the requests that suit.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case d.room <- struct{}{}:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	resp, err := d.exchange(r)
	if err != nil {
		<-d.room
	}
	return resp, err
}

// exchange sends a request and reads the header of its answer. What is sent can be repeated:
// it is, as by the stock transport, where the connection was closed while nobody used it.
func (d *direct) exchange(r *http.Request) (*http.Response, error) {
	if l := d.idle.take(target(r)); l != nil {
		if resp, stale, err := d.try(l, r); !stale {
			return resp, err
		}
	}
	l, err := d.dial(r)
	if err != nil {
		return nil, err
	}
	resp, _, err := d.try(l, r)
	return resp, err
}

// try sends a request on a connection. That is stale where it ended before an answer began.
func (d *direct) try(l *line, r *http.Request) (resp *http.Response, stale bool, err error) {
	disarm := context.AfterFunc(r.Context(), func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	l.left = d.base.MaxResponseHeaderBytes
	if err = l.send(r); err == nil {
		resp, err = l.answer(r)
	} else {
		stale = r.Context().Err() == nil
	}
	if err != nil {
		disarm()
		_ = l.Close()
		return nil, stale, err
	}
	l.left = math.MaxInt64
	body := &lineBody{ReadCloser: resp.Body, d: d, line: l, disarm: disarm, keep: !resp.Close && resp.StatusCode >= http.StatusOK}
	if resp.Body = body; resp.ContentLength == 0 {
		body.end(true)
	}
	return resp, false, nil
}

// lineBody is the body of an answer. Its end sets the connection free.
type lineBody struct {
	io.ReadCloser
	d      *direct
	line   *line
	disarm func() bool
	keep   bool // the connection is good for more
	once   sync.Once
}

// Read implements io.Reader.
func (b *lineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements io.Closer. What was not read is not waited for: the connection is closed.
func (b *lineBody) Close() error {
	b.end(false)
	return nil
}

func (b *lineBody) end(whole bool) {
	b.once.Do(func() {
		calm := b.disarm() // else the end of the context breaks the connection, now or in a moment
		if calm && whole && b.keep && b.line.in.Buffered() == 0 {
			b.d.idle.put(b.line)
		} else {
			_ = b.line.Close()
		}
		<-b.d.room
	})
}

// target is where a request goes and under which key. A connection serves one key alone, so that
// no fault of this way of reading could show anybody the answer to somebody else.
func target(r *http.Request) string {
	return r.URL.Scheme + "://" + r.URL.Host + " " + r.Header.Get("Authorization")
}

// dial opens a connection, as long as the request may take.
func (d *direct) dial(r *http.Request) (*line, error) {
	port := r.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[r.URL.Scheme]
	}
	conn, err := d.base.DialContext(r.Context(), "tcp", net.JoinHostPort(r.URL.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if r.URL.Scheme != "https" {
		return newLine(conn, conn, nil, target(r)), nil
	}
	below := &records{Conn: conn}
	secured, err := d.encrypt(r.Context(), below, r.URL.Hostname())
	if err != nil {
		return nil, err
	}
	return newLine(secured, conn, below, target(r)), nil
}

// encrypt shakes hands with a host that proves its name.
func (d *direct) encrypt(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	config := d.base.TLSClientConfig.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	timed, cancel := context.WithTimeout(ctx, d.base.TLSHandshakeTimeout)
	defer cancel()
	secured := tls.Client(conn, config)
	err := secured.HandshakeContext(timed)
	if err == nil {
		return secured, nil
	}
	_ = conn.Close()
	if timed.Err() != nil && ctx.Err() == nil {
		err = errHandshake
	}
	return nil, err
}
