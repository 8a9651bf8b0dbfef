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

// maxConns is how many connections to the catalog one transport opens at once. The three of
// TransportPools leave 256 for callers among the 1024 descriptors that many systems give a process.
const maxConns = 256

// NewTransport makes the transport for catalog requests.
//
// It speaks HTTP/1.1, one request at a time on a connection, so that a connection
// that went dead costs one attempt and is closed with it. It never asks for
// compression, which bounds what a small answer can grow to. It goes through the proxy that
// HTTPS_PROXY names, but for the hosts of NO_PROXY, in a tunnel of TLS to the catalog itself.
//
// At most 256 connections are open, so that a burst does not take every descriptor of
// the process. A request beyond that waits for one, and the wait is part of its time
// limit. A download holds its connection until its reader is done: see [TransportPools], which
// have three times as many.
//
// A connection that receives an unsolicited answer is closed, and the standard library prints the answer
// through the log package. It may hold an API key: a program that logs otherwise discards that log.
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

// Proxy is the host of the proxy before a catalog, "" where there is none.
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

// proxyOf is the proxy of a request. A request in the clear goes through no proxy, whatever the environment
// says, as a proxy would read the API key.
func proxyOf(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// TransportPools is a transport with a pool of connections for each class of request: orders,
// the bytes of results, and all other calls. In each pool, every API key has connections of its
// own. A download holds its connection until its reader is done, which may take minutes: in one
// pool, a few hundred slow readers would block every order.
type TransportPools struct{ calls, orders, results *pool }

// NewTransportPools makes the pools of base, which comes from [NewTransport]. Each pool has the limits
// of base, which must not change any more.
func NewTransportPools(base *http.Transport) *TransportPools {
	return &TransportPools{calls: newPool(base), orders: newPool(base), results: newPool(base)}
}

// RoundTrip implements http.RoundTripper. After an attempt that timed out it closes the idle
// connections: they may be dead for the same reason, and each would cost another attempt.
func (t *TransportPools) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.pool(r.Pattern).RoundTrip(r)
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

// ParseBaseURL checks the base URL. Its errors never repeat the URL, which may hold a
// password.
func ParseBaseURL(text string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("is empty")
	case err != nil:
		return nil, fmt.Errorf("can't be read: %w", errors.Unwrap(err))
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errors.New("must not have a query or fragment")
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return nil, fmt.Errorf("must be https for host %s, because API keys would travel in the clear; EASEL_UPSTREAM_INSECURE=true allows it", u.Hostname())
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
