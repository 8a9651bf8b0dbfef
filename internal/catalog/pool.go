package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/easel-grpc/easel/internal/limiter"
)

// pool contains the connections for one group of requests, such as orders. A connection is never used for more than one API
// key. Otherwise, if the catalog or a proxy sent two responses to one request, the second could be mistaken for the response to
// a request with another API key.
type pool struct {
	base    *http.Transport  // template for the transport of each API key
	limiter *limiter.Limiter // limits the number of requests in flight

	mu   sync.Mutex
	keys map[[sha256.Size]byte]*keyTransport // connections of each API key, keyed by the SHA-256 of the Authorization header
}

// keyTransport contains the connections of one API key.
type keyTransport struct {
	*http.Transport
	inFlight int // number of requests in flight
}

// newPool creates a pool. base.MaxConnsPerHost is the maximum number of requests in flight in the pool. When the pool already
// has that many API keys, it removes the API keys without requests in flight before it adds another one.
func newPool(base *http.Transport) *pool {
	return &pool{base: base, limiter: limiter.New(base.MaxConnsPerHost), keys: map[[sha256.Size]byte]*keyTransport{}}
}

// errNoConnection means that a request was not sent because no connection was free before its deadline.
var errNoConnection = errors.New("no free connection to the catalog")

type ownerKey struct{}

// withOwner returns a context for an owner's request. The pool divides the connections of a shared API key among the owners.
func withOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// sendPooled sends a request over the connections of one API key. authorization is the Authorization header with this API key.
// The request itself need not contain the header. It counts as in flight until the response body is closed. The pool divides
// its maximum number of requests in flight among API keys and owners.
func (p *pool) sendPooled(r *http.Request, authorization string) (*http.Response, error) {
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
		p.forgetUnused()
		t = &keyTransport{Transport: p.base.Clone()}
		p.keys[key] = t
	}
	t.inFlight++
	return t
}

// forgetUnused removes the API keys that have no requests in flight, if the pool has MaxConnsPerHost or more API keys. The
// caller must hold mu.
func (p *pool) forgetUnused() {
	if len(p.keys) < p.base.MaxConnsPerHost {
		return
	}
	maps.DeleteFunc(p.keys, func(_ [sha256.Size]byte, t *keyTransport) bool {
		if t.inFlight == 0 {
			go t.CloseIdleConnections() // runs in a goroutine, because mu is held here
		}
		return t.inFlight == 0
	})
}

// release records that a request no longer uses the transport t. If isRejected is true, the catalog rejected the API key. In
// this case, release removes t unless another request uses it, so that callers can't fill the pool with invented API keys.
func (p *pool) release(key [sha256.Size]byte, t *keyTransport, isRejected bool) {
	p.mu.Lock()
	t.inFlight--
	over := isRejected && t.inFlight == 0
	if over {
		delete(p.keys, key)
	}
	p.mu.Unlock()
	if over {
		t.CloseIdleConnections()
	}
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
