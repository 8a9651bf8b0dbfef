package catalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// maxConns is the maximum number of requests in flight in one pool. It is also the maximum number of API keys for which a pool
// keeps idle connections.
const maxConns = 256

// NewTransport creates the transport for requests to the catalog. It uses HTTP/1.1, so that a dead connection fails only one
// attempt. It disables compression, so that a small response cannot expand into a large one. HTTPS_PROXY and NO_PROXY apply.
//
// The transport writes unsolicited responses, which may contain an API key, to the standard logger of package log. The program
// must therefore discard the output of that logger.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  proxyOf,
		DialContext:            dialer.DialContext,
		Protocols:              protocols,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxConnsPerHost:        maxConns,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Proxy returns the host of the proxy for a base URL, or "" if no proxy is used.
func Proxy(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return ""
	}
	proxy, err := proxyOf(&http.Request{URL: u})
	if proxy == nil || err != nil {
		return ""
	}
	return proxy.Host
}

// proxyOf returns the proxy for a request. Requests over http use no proxy, because the proxy could read the API key.
func proxyOf(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// TransportPools contains one connection pool for orders, one for results and one for all other calls. Slow downloads of results
// therefore do not block orders. In each pool, every API key has its own connections.
type TransportPools struct{ calls, orders, results *pool }

// NewTransportPools creates the pools. The limits of base apply to each pool. Do not change base afterwards.
func NewTransportPools(base *http.Transport) *TransportPools {
	return &TransportPools{calls: newPool(base), orders: newPool(base), results: newPool(base)}
}

// RoundTrip implements http.RoundTripper. If an attempt times out, it closes the idle connections, because they may be dead too.
func (t *TransportPools) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.pool(r.Pattern).sendPooled(r, r.Header.Get("Authorization"))
	if err != nil && !errors.Is(err, errNoConnection) && errors.Is(context.Cause(r.Context()), errNoAnswer) {
		t.CloseIdleConnections()
	}
	return resp, err
}

func (t *TransportPools) pool(route string) *pool {
	switch route {
	case OpCreate:
		return t.orders
	case opContent:
		return t.results
	}
	return t.calls
}

// CloseIdleConnections closes the idle connections of all pools.
func (t *TransportPools) CloseIdleConnections() {
	t.calls.CloseIdleConnections()
	t.orders.CloseIdleConnections()
	t.results.CloseIdleConnections()
}

// ParseBaseURL parses a base URL. The URL must have no user, query or fragment. It must use https, unless the host is loopback
// or mayUseHTTP is true. Errors omit the URL, because it may contain a password.
func ParseBaseURL(text string, mayUseHTTP bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("is empty")
	case err != nil:
		return nil, fmt.Errorf("is invalid: %w", errors.Unwrap(err))
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("must not contain a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errors.New("must not have a query or fragment")
	case u.Scheme == "http" && !mayUseHTTP && !loopback(u.Hostname()):
		return nil, fmt.Errorf("must be https for host %s, because http would send API keys and results in plaintext; EASEL_UPSTREAM_INSECURE=true allows http", u.Hostname())
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	return url.Parse(u.Scheme + "://" + u.Host + path)
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
