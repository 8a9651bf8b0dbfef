package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// elsewhere follows the catalog's redirects of results to other hosts, over https, without the API key. It has places and
// connections as the catalog's own requests have them.
type elsewhere struct {
	hosts   []string // that are followed, as an address names them
	proxies []string // on the way to them, as they are dialled
	pool    *pool
	traced  http.RoundTripper // which sends by RoundTrip
}

// hop is a request to another host, for an API key that does not leave.
type hop struct {
	request       *http.Request
	authorization string
}

type hopKey struct{}

// opElsewhere is the Pattern of a request to another host, of which traces and metrics have no more.
const opElsewhere = http.MethodGet + " {host}"

// mostHops is how many redirects one answer may lead over.
const mostHops = 3

// CheckContentHost says what is wrong with a host that the catalog may send readers to.
func CheckContentHost(host string) error {
	u, err := url.Parse("https://" + host)
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return fmt.Errorf("%q has other letters than a host's: write its name as DNS has it, xn--…", host)
	}
	if err != nil || host == "" || u.Host != host || u.Hostname() == "" || strings.ContainsAny(host, "*@/?#") {
		return fmt.Errorf("%q is no host: write it without scheme and path, with a port that is not 443", host)
	}
	return nil
}

// newElsewhere follows to some hosts alone. An address of a network that is not public is used where it is named itself.
func newElsewhere(hosts []string, from *http.Transport, trace func(http.RoundTripper) http.RoundTripper) *elsewhere {
	e := &elsewhere{}
	for _, host := range hosts {
		e.hosts = append(e.hosts, strings.ToLower(host))
		if from.Proxy == nil {
			continue
		}
		if proxy, err := from.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: host}}); err == nil && proxy != nil {
			e.proxies = append(e.proxies, dialled(proxy))
		}
	}
	dial := from.DialContext
	from.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil && !slices.Contains(e.proxies, addr) && e.isHidden(conn.RemoteAddr()) {
			_ = conn.Close() // nothing was sent
			return nil, errHidden
		}
		return conn, err
	}
	e.pool, e.traced = newPool(from), trace(e)
	return e
}

// dialled is the address of a proxy that is dialled.
func dialled(proxy *url.URL) string {
	ports := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	return net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), ports[proxy.Scheme]))
}

// errHidden is the error of a host whose address is of a network that is not public.
var errHidden = errors.New("the host has an address that is not public: EASEL_CONTENT_HOSTS must name the address itself")

// isHidden reports whether an address that was reached is not public, and not named.
func (e *elsewhere) isHidden(at net.Addr) bool {
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

// reservedNetworks are not public, beside those that package netip knows: "this network" (RFC 1122), of carriers and of clouds
// (RFC 6598), for protocols (RFC 6890, 2928), for measurements (RFC 2544), of relays (RFC 7526), not in use (RFC 1112), once
// local to a site (RFC 3879), and IPv6's ways to IPv4 (RFC 4291, 6052, 8215, 2765, 3056).
var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("::ffff:0:0:0/96"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// follows reports whether an address may be followed.
func (e *elsewhere) follows(to *url.URL) bool {
	return to.Scheme == "https" && to.User == nil && slices.Contains(e.hosts, strings.ToLower(to.Host))
}

// of gives where an answer leads, if that may be followed.
func (e *elsewhere) of(r *request, from *url.URL, resp *http.Response) (to *url.URL, ok bool) {
	if resp == nil || r.op != opContent {
		return nil, false
	}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		to, err := from.Parse(resp.Header.Get("Location"))
		return to, err == nil && resp.Header.Get("Location") != "" && e.follows(to)
	}
	return nil, false
}

// get reads a result at another host, for an API key that does not leave. What that host refuses is not the catalog's word: it
// may be asked again. Errors do not repeat the address, which may be a secret.
func (e *elsewhere) get(ctx context.Context, authorization string, r *request, to *url.URL) (*http.Response, error) {
	for range mostHops {
		resp, err := e.send(ctx, authorization, r, to)
		switch {
		case errors.Is(err, errNoConnection):
			return nil, &Error{Kind: KindBusy, Op: opContent, Message: "no connection to the host that has the result is free"}
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

// send sends a request to another host. What traces it is shown the host alone.
func (e *elsewhere) send(ctx context.Context, authorization string, r *request, to *url.URL) (*http.Response, error) {
	req := &http.Request{Method: http.MethodGet, URL: to, Host: to.Host, Header: http.Header{}}
	maps.Copy(req.Header, r.header)
	maps.Copy(req.Header, sameHeader)
	shown := &http.Request{Method: req.Method, URL: &url.URL{Scheme: to.Scheme, Host: to.Host}, Host: to.Host, Header: http.Header{}, Pattern: opElsewhere}
	return e.traced.RoundTrip(shown.WithContext(context.WithValue(ctx, hopKey{}, hop{req, authorization})))
}

// RoundTrip implements [http.RoundTripper] for what traces: it sends the request that is not shown, as it is.
func (e *elsewhere) RoundTrip(shown *http.Request) (*http.Response, error) {
	h, _ := shown.Context().Value(hopKey{}).(hop) // send has put it there
	return e.pool.send(h.request.WithContext(shown.Context()), h.authorization)
}
