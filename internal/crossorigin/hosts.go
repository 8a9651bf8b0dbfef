// Package crossorigin rejects requests that another web page makes a browser send. It recognizes them by their host and
// by the origin that the browser reports.
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

// Hosts are the accepted Host names of a listener, in addition to localhost and loopback addresses. A web page whose
// name resolves to our address (DNS rebinding) also reaches the listener. The browser then treats the listener as the
// page's own origin. Only the name in Host reveals the page.
type Hosts struct {
	any       bool
	addresses bool // accepts any address, because a rebinding page has a name
	names     []string
}

// PublicHosts returns the hosts of the HTTP listener, which is bound to addr. They are limited on loopback for all
// callers, and elsewhere only if an operator has configured them.
func PublicHosts(allowed []string, addr string) Hosts {
	return Hosts{any: len(allowed) == 0 && !IsLoopback(addr), names: allowed}
}

// AdminHosts returns the hosts of the admin listener, which is bound to addr. They are always limited, because some
// routes need no credential. Except on loopback, they include the configured host, and addresses, which probes and
// Prometheus use.
func AdminHosts(allowed []string, configured, addr string) Hosts {
	if IsLoopback(addr) {
		return Hosts{names: allowed}
	}
	return Hosts{addresses: true, names: append(slices.Clone(allowed), withoutPort(configured))}
}

// RefuseOthers denies each request for another host.
func (h Hosts) RefuseOthers(next http.Handler, deny Deny) http.Handler {
	if h.any {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.contain(r.Host) {
			deny(w, r, service.Fail(easelv1.ErrorReason_HOST_NOT_ALLOWED,
				"this server does not answer to the host of this request: use localhost or a loopback address on its own machine, "+
					"or have the host listed in EASEL_HTTP_ALLOWED_HOSTS"))
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

// IsLoopback reports whether a Host header or an address is this machine itself.
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
	if err != nil { // without a port
		return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return host
}
