package catalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// elsewhere follows the catalog's redirects of results to other hosts, over https, without the API key.
type elsewhere struct {
	hosts     []string // that are followed, as an address names them
	transport *http.Transport
}

// mostHops is how many redirects one answer may lead over.
const mostHops = 3

// CheckContentHost says what is wrong with a host that the catalog may send readers to.
func CheckContentHost(host string) error {
	u, err := url.Parse("https://" + host)
	if err != nil || host == "" || u.Host != host || u.Hostname() == "" || strings.ContainsAny(host, "*@/?#") {
		return fmt.Errorf("%q is no host: write it without scheme and path, with a port that is not 443", host)
	}
	return nil
}

// newElsewhere follows to some hosts alone. An address of a network that is not public is used where it is named itself.
func newElsewhere(hosts []string, from *http.Transport) *elsewhere {
	e := &elsewhere{transport: from}
	for _, host := range hosts {
		e.hosts = append(e.hosts, strings.ToLower(host))
	}
	dial := e.transport.DialContext
	e.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil && e.isHidden(addr, conn.RemoteAddr()) {
			_ = conn.Close() // nothing was sent
			return nil, errHidden
		}
		return conn, err
	}
	return e
}

// errHidden is the error of a host whose address is of a network that is not public.
var errHidden = errors.New("the host has an address that is not public: EASEL_CONTENT_HOSTS must name the address itself")

// isHidden reports whether a host that is followed has led to an address that is not public, and that is not named. What is
// dialled for a proxy is the proxy.
func (e *elsewhere) isHidden(asked string, at net.Addr) bool {
	host, port, err := net.SplitHostPort(asked)
	isNamed := func(host string) bool { return e.follows(&url.URL{Scheme: "https", Host: host}) }
	followed := isNamed(asked) || port == "443" && (isNamed(host) || isNamed("["+host+"]"))
	if err != nil || !followed {
		return false
	}
	address, err := netip.ParseAddrPort(at.String())
	if err != nil {
		return true
	}
	ip := address.Addr().Unmap()
	reserved := slices.ContainsFunc(reservedNetworks, func(network netip.Prefix) bool { return network.Contains(ip) })
	public := ip.IsGlobalUnicast() && !ip.IsPrivate() && !reserved
	named := func(host string) bool {
		one, err := netip.ParseAddr(strings.Trim((&url.URL{Host: host}).Hostname(), "[]"))
		return err == nil && one.Unmap() == ip
	}
	return !public && !slices.ContainsFunc(e.hosts, named)
}

// reservedNetworks are not public, beside those that package netip knows: of carriers and of clouds (RFC 6598), for
// protocols (RFC 6890), for measurements (RFC 2544), not in use (RFC 1112), and IPv6's ways to IPv4 (RFC 6052, 8215).
var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
}

// follows reports whether an address may be followed.
func (e *elsewhere) follows(to *url.URL) bool {
	return to.Scheme == "https" && to.User == nil && slices.Contains(e.hosts, strings.ToLower(to.Host))
}

// of gives where an answer leads, if that may be followed.
func (e *elsewhere) of(r *request, from *url.URL, resp *http.Response) (to *url.URL, ok bool) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, false
	}
	if r.op != opContent {
		return nil, false
	}
	to, err := from.Parse(resp.Header.Get("Location"))
	return to, err == nil && resp.Header.Get("Location") != "" && e.follows(to)
}

// get reads a result at another host. What that host refuses is not the catalog's word: it may be asked again. Errors do
// not repeat the address, which may be a secret.
func (e *elsewhere) get(ctx context.Context, r *request, to *url.URL) (*http.Response, error) {
	for range mostHops {
		req := (&http.Request{Method: http.MethodGet, URL: to, Host: to.Host, Header: http.Header{}}).WithContext(ctx)
		for _, header := range []http.Header{r.header, sameHeader} {
			for name, values := range header {
				req.Header[name] = values
			}
		}
		resp, err := e.transport.RoundTrip(req)
		switch {
		case errors.Is(err, errHidden):
			return nil, &Error{Kind: KindRedirect, Op: opContent, Message: errHidden.Error()}
		case err != nil && context.Cause(ctx) != nil:
			return nil, &Error{Kind: KindUnavailable, Op: opContent, Err: context.Cause(ctx)}
		case err != nil:
			return nil, &Error{Kind: KindUnavailable, Op: opContent, Message: "the host that has the result is not reached"}
		case resp.StatusCode/100 == 2, resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
			return resp, nil
		}
		next, more := e.of(r, to, resp)
		_ = resp.Body.Close() // it says nothing that counts
		if !more {
			return nil, &Error{Kind: KindUnavailable, Op: opContent, Status: resp.StatusCode, Message: "the host that has the result refuses it", RetryAfter: ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())}
		}
		to = next
	}
	return nil, &Error{Kind: KindRedirect, Op: opContent, Message: "the result lies behind too many redirects"}
}
