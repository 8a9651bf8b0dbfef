package simulation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/limiter"
)

// request is a process's request to the catalog.
type request struct {
	at, end time.Duration
	process string
	tenant  string // tenant to which the API key belongs
	apiKey  string // SHA-256 of the API key
	op      string // route, such as "GET /generations/{id}"
	path    string
	poll    bool   // whether the request is a poll by the hub
	key     string // Idempotency-Key
	status  int    // HTTP status of the response; zero if there was no response
	cut     bool   // whether the process canceled the request

	undialed bool // whether the process could not connect
	after    time.Duration
}

// traffic contains all requests to the catalog, and the leaks that were found, such as secrets in public data.
type traffic struct {
	mu      sync.Mutex
	history *promises.Record
	list    []request
	leaks   []string
}

func (t *traffic) add(r request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, r)
}

type pollKey struct{}

// polls is the hub's client of the catalog. It marks requests as polls.
type polls struct{ client *catalog.Client }

func asPoll(ctx context.Context) context.Context { return context.WithValue(ctx, pollKey{}, true) }

func (p polls) Limiter(t catalog.Tenant) *limiter.Limiter { return p.client.Limiter(t) }

func (p polls) Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Version, error) {
	return p.client.Generation(asPoll(ctx), cred, id)
}

func (p polls) List(ctx context.Context, cred catalog.Credential, since time.Time) (*catalog.List, error) {
	return p.client.List(asPoll(ctx), cred, since)
}

func (p polls) Account(ctx context.Context, cred catalog.Credential) (catalog.Account, error) {
	return p.client.Account(asPoll(ctx), cred)
}

// tap is the transport of a process. It records every request. It delays each request and each response by a different
// time, so that no two arrive at the same instant.
type tap struct {
	base    http.RoundTripper
	traffic *traffic
	process string
	seed    uint64
	tenants map[string]string // tenant names by API key
	owner   *process
	world   *world

	mu    sync.Mutex
	times map[string]int // number of requests so far, keyed by method, tenant, URL and idempotency key
}

func (t *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	apiKey := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	tenant := t.tenants[apiKey]
	note := request{
		at: t.traffic.history.Since(), process: t.process, tenant: tenant, op: r.Pattern, path: r.URL.Path,
		poll: r.Context().Value(pollKey{}) != nil, key: r.Header.Get("Idempotency-Key"), apiKey: fmt.Sprintf("%x", sha256.Sum256([]byte(apiKey))),
	}
	resp, err := t.send(r, tenant)
	note.end = t.traffic.history.Since()
	note.cut = err != nil && context.Cause(r.Context()) != nil
	var op *net.OpError
	note.undialed = errors.As(err, &op) && op.Op == "dial"
	if err == nil {
		note.status = resp.StatusCode
		note.after = retryAfter(resp.Header.Get("Retry-After"))
	}
	t.traffic.add(note)
	return resp, err
}

func (t *tap) send(r *http.Request, tenant string) (*http.Response, error) {
	there, back := t.networkDelays(r.Method + tenant + r.URL.String() + r.Header.Get("Idempotency-Key"))
	if err := wait(r.Context(), there); err != nil {
		return nil, err
	}
	resp, err := t.passRequest(r)
	if late := wait(r.Context(), back); late != nil && err == nil {
		resp.Body.Close()
		return nil, late
	}
	return resp, err
}

// passRequest sends a request. If the request is an order, a fault can crash or freeze the process before the request
// is sent or after the response has arrived. A process that was frozen before the request sends it after the freeze.
func (t *tap) passRequest(r *http.Request) (*http.Response, error) {
	orders := t.owner.gateway != nil && r.Pattern == routePlace
	if orders && t.world.springTrap(t.process, stepBeforePost) {
		if err := t.owner.gateway.awaitAlive(); err != nil {
			return nil, err
		}
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	resp, err := t.base.RoundTrip(r)
	if orders && err == nil && t.world.springTrap(t.process, stepAfterPost) {
		if failed := t.owner.gateway.awaitAlive(); failed != nil {
			resp.Body.Close()
			return nil, failed
		}
	}
	return resp, err
}

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// networkDelays returns the network delays of a request and of its response. identity consists of the request's method,
// tenant, URL and idempotency key. The delays depend only on the seed, on identity, and on the number of earlier
// requests with the same identity.
func (t *tap) networkDelays(identity string) (there, back time.Duration) {
	t.mu.Lock()
	t.times[identity]++
	n := t.times[identity]
	t.mu.Unlock()
	sum := fnv.New64a()
	sum.Write([]byte(strconv.FormatUint(t.seed, 10) + identity + strconv.Itoa(n)))
	random := mix(sum.Sum64())
	draw := func(most time.Duration) time.Duration {
		random = mix(random)
		return time.Millisecond + time.Duration(random%uint64(most))
	}
	return draw(20 * time.Millisecond), draw(10 * time.Millisecond)
}

// mix returns a hash of z in which each bit depends on all bits of z.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// retryAfter returns the pause in a Retry-After header, but at most 2 minutes. It returns zero if the header is not a
// number of seconds; the simulation does not check such pauses.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, 2*time.Minute)
}
