package easel

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// DefaultAddress is the address that New uses if neither WithAddress nor EASEL_ADDR sets one.
const DefaultAddress = "localhost:50051"

// endpoint is a parsed address.
type endpoint struct {
	hostPort    string
	http, https bool // whether the scheme is http or https; both are false if the address has no scheme
	loopback    bool
}

// parseAddress parses an address of the form host:port, http://host:port or https://host:port. The default port of http is 80,
// and that of https is 443. An empty address means DefaultAddress.
func parseAddress(address string) (endpoint, error) {
	address = cmp.Or(strings.TrimSpace(address), DefaultAddress)
	hostPort, usual := strings.TrimSuffix(address, "/"), ""
	scheme, _, web := strings.Cut(strings.ToLower(address), "://")
	if web {
		at, err := url.Parse(address)
		usual = map[string]string{"http": "80", "https": "443"}[scheme]
		if err != nil || usual == "" || at.User != nil || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "" {
			return endpoint{}, noAddress(address)
		}
		hostPort = net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), usual))
	}
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil && strings.Contains(err.Error(), "missing port") && !strings.ContainsAny(address, "/@ ") {
		return endpoint{}, fmt.Errorf("easel: the address %q has no port; add the port, for example %q", address, address+":50051")
	}
	number, wrong := strconv.Atoi(port)
	if err != nil || wrong != nil || number < 1 || number > 65535 || strings.ContainsAny(host, "/?#@ ") || host == "" {
		return endpoint{}, noAddress(address)
	}
	return endpoint{net.JoinHostPort(host, port), scheme == "http" && web, scheme == "https" && web, isLoopback(host)}, nil
}

// noAddress returns the error for an invalid address. If the address contains an @, the error omits the address,
// because it may include a password.
func noAddress(address string) error {
	text := "address " + strconv.Quote(address)
	if strings.Contains(address, "@") {
		text = "address"
	}
	return fmt.Errorf("easel: invalid %s; write host:port, http://host:port or https://host:port", text)
}

// isLoopback reports whether host is localhost or a loopback address.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}
