package catalog

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// parseBaseURL checks the base URL. Its errors never repeat the URL, which may hold a
// password.
func parseBaseURL(text string, insecure bool) (*url.URL, error) {
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
		return nil, fmt.Errorf("must be https for host %s, because API keys would travel in the clear", u.Hostname())
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
