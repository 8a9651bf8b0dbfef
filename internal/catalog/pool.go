package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// pool contains the connections of one class of request. Each API key has its own connections. If a catalog or a proxy
// responds twice to one request, only the same API key can receive the second response.
type pool struct {
	base    *http.Transport  // template; each API key has a copy
	limiter *limiter.Limiter // limits the requests in flight

	mu   sync.Mutex
	keys map[[sha256.Size]byte]*keyTransport // by digest of the catalog's Authorization header
	open int                                 // connections of all API keys
}

// keyTransport contains the connections of one API key.
type keyTransport struct {
	*http.Transport
	inFlight int         // number of requests in flight
	lastUsed time.Time   // end of the last request
	idle     *time.Timer // removes the API key
}

// newPool creates a pool with as many connections, in use or idle, as base allows for a host.
func newPool(base *http.Transport) *pool {
	p := &pool{base: base.Clone(), limiter: limiter.New(base.MaxConnsPerHost), keys: map[[sha256.Size]byte]*keyTransport{}}
	p.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		p.countOpen()
		conn, err := base.DialContext(ctx, network, addr)
		if err != nil {
			p.countClosed()
			return nil, err
		}
		return &pooledConn{Conn: conn, closed: sync.OnceFunc(p.countClosed)}, nil
	}
	return p
}

// errNoConnection is the error for a request that was not sent, because no connection was free before its deadline.
var errNoConnection = errors.New("no connection to the catalog is free")

type ownerKey struct{}

// withOwner returns a context for a request of an owner. The pool divides the connections of a shared API key among its owners.
func withOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// RoundTrip implements http.RoundTripper.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.send(r, r.Header.Get("Authorization"))
}

// send sends a request for an API key, given by the catalog's Authorization header, which the request itself may omit.
// The request occupies a slot until its response is closed. API keys and owners of a shared API key divide the slots.
func (p *pool) send(r *http.Request, authorization string) (*http.Response, error) {
	key := sha256.Sum256([]byte(authorization))
	owner, _ := r.Context().Value(ownerKey{}).(string)
	permit, err := p.limiter.Acquire(r.Context(), limiter.Request{Owner: string(key[:]) + owner})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	t := p.transportOf(key)
	resp, err := t.RoundTrip(r)
	isRejected := err == nil && resp.StatusCode == http.StatusUnauthorized
	release := sync.OnceFunc(func() {
		p.release(key, t, isRejected)
		permit.Release(limiter.Result{})
	})
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = pooledBody{resp.Body, release}
	return resp, nil
}

// CloseIdleConnections closes the idle connections.
func (p *pool) CloseIdleConnections() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.keys))
	p.mu.Unlock()
	for _, t := range all {
		t.CloseIdleConnections()
	}
}

func (p *pool) transportOf(key [sha256.Size]byte) *keyTransport {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.keys[key]
	if t == nil {
		t = &keyTransport{Transport: p.base.Clone()}
		p.keys[key] = t
		p.forgetAfterUse(key, t)
	}
	t.inFlight++
	return t
}

// release ends the use of a transport. It removes a rejected API key when no request uses it, because callers can
// invent keys.
func (p *pool) release(key [sha256.Size]byte, t *keyTransport, isRejected bool) {
	p.mu.Lock()
	t.inFlight--
	t.lastUsed = time.Now()
	over := isRejected && t.inFlight == 0
	if over && t.idle.Stop() {
		delete(p.keys, key)
	}
	p.mu.Unlock()
	if over {
		t.CloseIdleConnections()
	}
}

// forgetAfterUse removes an API key after its connections have timed out; mu is held.
func (p *pool) forgetAfterUse(key [sha256.Size]byte, t *keyTransport) {
	t.idle = time.AfterFunc(p.base.IdleConnTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.inFlight > 0 || time.Since(t.lastUsed) < p.base.IdleConnTimeout {
			p.forgetAfterUse(key, t)
			return
		}
		delete(p.keys, key)
	})
}

// countOpen counts a connection. At the limit it closes idle connections. There are some, because a request acquires a
// slot before it connects.
func (p *pool) countOpen() {
	p.mu.Lock()
	full := p.open >= p.base.MaxConnsPerHost
	p.open++
	p.mu.Unlock()
	if full {
		p.CloseIdleConnections()
	}
}

func (p *pool) countClosed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// pooledConn is a connection that is counted until it closes.
type pooledConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *pooledConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// pooledBody is the body of a response. Close releases the transport.
type pooledBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b pooledBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
