// Package crossorigin refuses requests that a foreign web page makes a browser send. It tells them by the
// host that they name, and by the origin that the browser reports.
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

// Deny answers a request that is refused.
type Deny func(w http.ResponseWriter, r *http.Request, why error)

// Hosts are the names that a request may call a listener by, beside localhost and loopback
// addresses. A web page whose name was made to resolve to our address (DNS rebinding) reaches the
// listener too, and for the browser the listener is of the page's own origin: only the name in Host
// gives the page away.
type Hosts struct {
	any       bool
	addresses bool // any address: a page has a name that was made to resolve to one
	names     []string
}

// PublicHosts are those of the HTTP listener, which is bound to addr. They are limited on loopback
// whoever may call, and elsewhere where an operator has listed them.
func PublicHosts(allowed []string, addr string) Hosts {
	return Hosts{any: len(allowed) == 0 && !IsLoopback(addr), names: allowed}
}

// AdminHosts are those of the admin listener, which is bound to addr: never any, as not all there asks
// for a credential. Elsewhere than on loopback they are the host that the listener was configured with,
// and addresses, which probes and Prometheus use.
func AdminHosts(allowed []string, configured, addr string) Hosts {
	if IsLoopback(addr) {
		return Hosts{names: allowed}
	}
	return Hosts{addresses: true, names: append(slices.Clone(allowed), withoutPort(configured))}
}

// RefuseOthers denies each request that names another host.
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

// IsLoopback reports whether a Host header, or an address, names this machine itself.
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
	if err != nil { // it has no port
		return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return host
}
