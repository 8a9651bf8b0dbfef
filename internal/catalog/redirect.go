package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// elsewhere is a client that follows the catalog's redirects to results on other hosts. It uses https and does not send the API
// key. It divides its connections fairly among API keys and owners.
type elsewhere struct {
	hosts []string // allowed hosts, in the form of [url.URL.Host]
	pool  *pool
}

// maxHops is the maximum number of redirects for one request.
const maxHops = 3

// CheckContentHost returns an error if host is not a valid name of a host to which the catalog may redirect requests for results.
func CheckContentHost(host string) error {
	u, err := url.Parse("https://" + host)
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return fmt.Errorf("%q is not ASCII; use the Punycode form, such as xn--bcher-kva.example", host)
	}
	if err != nil || host == "" || u.Host != host || u.Hostname() == "" || strings.ContainsAny(host, "*@/?#") {
		return fmt.Errorf("%q is not a host; remove the scheme and path, and add the port only if it is not 443", host)
	}
	return nil
}

func newElsewhere(hosts []string, base *http.Transport) *elsewhere {
	e := &elsewhere{pool: newPool(base)}
	for _, host := range hosts {
		e.hosts = append(e.hosts, strings.ToLower(host))
	}
	return e
}

// mayFollow reports whether the client may follow a redirect to the given URL.
func (e *elsewhere) mayFollow(to *url.URL) bool {
	return to.Scheme == "https" && to.User == nil && slices.Contains(e.hosts, strings.ToLower(to.Host))
}

// redirectTarget returns the URL to which the response resp redirects the request r. A relative URL is resolved against
// responseURL, which is the URL that sent the response. redirectTarget returns false if resp is not a redirect, if r does not
// request a result, or if the redirect must not be followed.
func (e *elsewhere) redirectTarget(r *request, responseURL *url.URL, resp *http.Response) (to *url.URL, ok bool) {
	if resp == nil || r.op != opContent {
		return nil, false
	}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		to, err := responseURL.Parse(resp.Header.Get("Location"))
		return to, err == nil && resp.Header.Get("Location") != "" && e.mayFollow(to)
	}
	return nil, false
}

// get reads a result from another host. authorization is not sent to that host. It is needed only to choose the connection,
// because each API key has its own connections. If the other host rejects the request, the error has the kind
// [KindUnavailable], so that the request may be retried. Errors omit the URL, which may contain a secret.
func (e *elsewhere) get(ctx context.Context, authorization string, r *request, to *url.URL) (*http.Response, error) {
	for range maxHops {
		resp, err := e.send(ctx, authorization, r, to)
		switch {
		case errors.Is(err, errNoConnection):
			return nil, &Error{Kind: KindBusy, Op: opContent, Message: "no free connection to the host of the result"}
		case err != nil:
			return nil, &Error{Kind: KindUnavailable, Op: opContent, Message: "host of the result unreachable", Err: context.Cause(ctx)}
		case resp.StatusCode/100 == 2, resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
			return resp, nil
		}
		next, more := e.redirectTarget(r, to, resp)
		_ = resp.Body.Close() // the body of the redirect is not needed
		if !more {
			return nil, &Error{Kind: KindUnavailable, Op: opContent, Status: resp.StatusCode, Message: "host of the result rejected the request", RetryAfter: ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())}
		}
		to = next
	}
	return nil, &Error{Kind: KindRedirect, Op: opContent, Message: "too many redirects to the result"}
}

// send sends a request to another host. The request is not traced, because its URL may contain a secret.
func (e *elsewhere) send(ctx context.Context, authorization string, r *request, to *url.URL) (*http.Response, error) {
	req := &http.Request{Method: http.MethodGet, URL: to, Host: to.Host, Header: http.Header{}}
	maps.Copy(req.Header, r.header)
	maps.Copy(req.Header, sameHeader)
	return e.pool.sendPooled(req.WithContext(ctx), authorization)
}
