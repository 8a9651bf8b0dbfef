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

// Hosts are the Host headers that a listener accepts, in addition to localhost and loopback addresses. They protect
// against DNS rebinding: a web page can make its own name resolve to the address of this server. The browser then
// treats the server as the page's own origin. Only the name in the Host header identifies the page.
type Hosts struct {
	any       bool     // accepts every host
	addresses bool     // accepts every IP address, because DNS rebinding needs a name
	names     []string // accepted host names
}

// PublicHosts returns the hosts of the HTTP listener, which is bound to addr. If addr is a loopback address, only the
// allowed names are accepted. Otherwise every host is accepted, unless allowed has names.
func PublicHosts(allowed []string, addr string) Hosts {
	return Hosts{any: len(allowed) == 0 && !IsLoopback(addr), names: allowed}
}

// AdminHosts returns the hosts of the admin listener, which is bound to addr. They are always limited, because some
// routes need no credential. Unless addr is a loopback address, the host of the configured address and all IP
// addresses are accepted too. Probes and Prometheus use IP addresses.
func AdminHosts(allowed []string, configured, addr string) Hosts {
	if IsLoopback(addr) {
		return Hosts{names: allowed}
	}
	return Hosts{addresses: true, names: append(slices.Clone(allowed), withoutPort(configured))}
}

// RefuseOthers denies each request whose Host is not one of these hosts.
func (h Hosts) RefuseOthers(next http.Handler, deny Deny) http.Handler {
	if h.any {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.contain(r.Host) {
			deny(w, r, service.Fail(easelv1.ErrorReason_HOST_NOT_ALLOWED,
				"the Host of this request is not allowed; use localhost on the machine of the server, "+
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
