package catalog

import (
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// pool has the connections of one class of request. Each API key has its own: where a catalog, or
// what stands before it, answers one request twice, the second answer reaches nobody else.
type pool struct {
	base   *http.Transport // of which each key has a copy
	places *places         // of the requests under way

	mu   sync.Mutex
	keys map[[sha256.Size]byte]*keyTransport // by what Authorization says
	open int                                 // connections, of all keys
}

// keyTransport has the connections of one API key.
type keyTransport struct {
	*http.Transport
	busy int         // requests under way
	used time.Time   // when the last one ended
	idle *time.Timer // until the key is forgotten
}

// newPool makes a pool that has as many connections, in use or idle, as base allows to a host.
func newPool(base *http.Transport) *pool {
	p := &pool{base: base.Clone(), places: newPlaces(base.MaxConnsPerHost), keys: map[[sha256.Size]byte]*keyTransport{}}
	p.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		p.opening()
		conn, err := base.DialContext(ctx, network, addr)
		if err != nil {
			p.closed()
			return nil, err
		}
		return &pooledConn{Conn: conn, closed: sync.OnceFunc(p.closed)}, nil
	}
	return p
}

// RoundTrip implements http.RoundTripper. A request has its place until its answer is closed.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	by := holderOf(r.Context(), r.Header.Get("Authorization"))
	if err := p.places.take(r.Context(), by); err != nil {
		return nil, err
	}
	t := p.take(by.key)
	resp, err := t.RoundTrip(r)
	if err != nil {
		p.release(t, by, false)
		return nil, err
	}
	rejected := resp.StatusCode == http.StatusUnauthorized
	resp.Body = &pooledBody{ReadCloser: resp.Body, pool: p, transport: t, by: by, rejected: rejected}
	return resp, nil
}

// CloseIdleConnections closes what nobody uses.
func (p *pool) CloseIdleConnections() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.keys))
	p.mu.Unlock()
	for _, t := range all {
		t.CloseIdleConnections()
	}
}

func (p *pool) take(key [sha256.Size]byte) *keyTransport {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.keys[key]
	if t == nil {
		t = &keyTransport{Transport: p.base.Clone()}
		p.keys[key] = t
		p.forgetAfterUse(key, t)
	}
	t.busy++
	return t
}

// release ends the use of a transport. A key that the catalog rejects is forgotten then: keys can be made up.
func (p *pool) release(t *keyTransport, by holder, rejected bool) {
	p.mu.Lock()
	t.busy--
	t.used = time.Now()
	over := rejected && t.busy == 0
	if over && t.idle.Stop() {
		delete(p.keys, by.key)
	}
	p.mu.Unlock()
	if over {
		t.CloseIdleConnections()
	}
	p.places.put(by)
}

// forgetAfterUse forgets a key once its connections have ended; mu is held.
func (p *pool) forgetAfterUse(key [sha256.Size]byte, t *keyTransport) {
	t.idle = time.AfterFunc(p.base.IdleConnTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.busy > 0 || time.Since(t.used) < p.base.IdleConnTimeout {
			p.forgetAfterUse(key, t)
			return
		}
		delete(p.keys, key)
	})
}

// opening counts a connection. Where all are taken some are idle, as a request has a place before it
// has a connection: those make room.
func (p *pool) opening() {
	p.mu.Lock()
	full := p.open >= p.places.limit
	p.open++
	p.mu.Unlock()
	if full {
		p.CloseIdleConnections()
	}
}

func (p *pool) closed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// pooledConn is a connection that tells of its end.
type pooledConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *pooledConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// pooledBody is the body of an answer, which tells of its end.
type pooledBody struct {
	io.ReadCloser
	pool      *pool
	transport *keyTransport
	by        holder
	rejected  bool
	ended     sync.Once
}

// Close implements io.Closer.
func (b *pooledBody) Close() error {
	defer b.ended.Do(func() { b.pool.release(b.transport, b.by, b.rejected) })
	return b.ReadCloser.Close()
}
