package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/easel-grpc/easel/internal/service"
)

// hosts are the names that a request may call a listener by, beside localhost and loopback
// addresses. A web page whose name was made to resolve to our address reaches us too, and for
// the browser we are of its own origin: the name in Host alone gives it away.
type hosts struct {
	any       bool
	addresses bool // any address: a page has a name that was made to resolve to one
	names     []string
}

// publicHosts are those of the REST listener, which is bound to addr. They are limited on loopback
// whoever may call, and elsewhere where an operator has listed them.
func publicHosts(allowed []string, addr string) hosts {
	return hosts{any: len(allowed) == 0 && !loopbackHost(addr), names: allowed}
}

// adminHosts are those of the admin listener, which is bound to addr: never any, as nothing there asks
// for a credential. Elsewhere than on loopback it has the host that it was told to listen on, and
// addresses, by which probes and Prometheus come.
func adminHosts(allowed []string, configured, addr string) hosts {
	if loopbackHost(addr) {
		return hosts{names: allowed}
	}
	return hosts{addresses: true, names: append(slices.Clone(allowed), withoutPort(configured))}
}

// refuseOthers answers no request that names another host.
func (h hosts) refuseOthers(next http.Handler) http.Handler {
	if h.any {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.contain(r.Host) {
			writeError(w, r, service.Fail(codes.PermissionDenied, reasonHost,
				"this server does not answer to the host of this request: use localhost or a loopback address on its own machine, "+
					"or have the host listed in EASEL_HTTP_ALLOWED_HOSTS"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h hosts) contain(hostport string) bool {
	host := withoutPort(hostport)
	_, noAddress := netip.ParseAddr(host)
	same := func(name string) bool { return name != "" && strings.EqualFold(strings.TrimSuffix(host, "."), name) }
	return h.addresses && noAddress == nil || loopbackHost(hostport) || slices.ContainsFunc(h.names, same)
}

// loopbackHost reports whether a Host header, or an address, names this machine itself.
func loopbackHost(hostport string) bool {
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
