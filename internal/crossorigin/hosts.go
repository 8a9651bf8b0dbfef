// Package crossorigin rejects requests that a browser sends for a page of another website. It recognizes them by the
// Host header and by the origin that the browser reports.
package crossorigin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// Deny responds to a rejected request.
type Deny func(w http.ResponseWriter, r *http.Request, why error)

// Hosts contains the hosts that a listener accepts in Host headers, in addition to localhost and loopback addresses. It
// protects against DNS rebinding, in which a web page makes its own domain name resolve to the address of this server.
// The browser then treats the server as part of the page's origin. But the Host header still contains the page's domain
// name, so the server can reject the request.
type Hosts struct {
	any       bool     // whether to accept every host
	addresses bool     // whether to accept every IP address, which is safe because DNS rebinding needs a domain name
	names     []string // accepted host names
}

// PublicHosts returns the hosts that the HTTP listener accepts. If no names are allowed and the listener is not bound to a
// loopback address, it accepts every host. Otherwise, it accepts only localhost, loopback addresses, and the allowed names.
// addr is the bound address.
func PublicHosts(allowed []string, addr string) Hosts {
	return Hosts{any: len(allowed) == 0 && !IsLoopback(addr), names: allowed}
}

// AdminHosts returns the hosts that the admin listener accepts. The listener always accepts localhost, loopback
// addresses, and the allowed names. If addr, its bound address, is not a loopback address, it also accepts the
// configured host and, for probes and Prometheus, every IP address. It never accepts every name, because some of its
// routes need no credential.
func AdminHosts(allowed []string, configured, addr string) Hosts {
	if IsLoopback(addr) {
		return Hosts{names: allowed}
	}
	return Hosts{addresses: true, names: append(slices.Clone(allowed), withoutPort(configured))}
}

// RefuseOthers returns a handler that calls deny for each request with a Host header that h does not accept. It passes
// all other requests to next.
func (h Hosts) RefuseOthers(next http.Handler, deny Deny) http.Handler {
	if h.any {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.contain(r.Host) {
			deny(w, r, service.Fail(easelv1.ErrorReason_HOST_NOT_ALLOWED,
				"the Host of this request is not allowed; use localhost on the server's machine, "+
					"or ask the operator to add the host to EASEL_HTTP_ALLOWED_HOSTS"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h Hosts) contain(hostport string) bool {
	host := withoutPort(hostport)
	_, noAddress := netip.ParseAddr(host)
	same := func(name string) bool { return name != "" && strings.EqualFold(strings.TrimSuffix(host, "."), name) }
	return h.addresses && noAddress == nil || IsLoopback(hostport) || slices.ContainsFunc(h.names, same)
}

// IsLoopback reports whether the host of a Host header or an address is localhost or a loopback address.
func IsLoopback(hostport string) bool {
	host := withoutPort(hostport)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func withoutPort(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil { // hostport has no port
		return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return host
}
