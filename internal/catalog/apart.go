package catalog

import "net/http"

// Apart is a transport with two sets of connections: one for the bytes of results, one
// for all else. A download holds its connection until its reader is done, which may be
// minutes; without this a few hundred slow readers would keep every order from leaving.
type Apart struct {
	calls, content *http.Transport
}

// KeepApart makes one of base, which serves calls from then on; each set has the limits
// of base.
func KeepApart(base *http.Transport) *Apart {
	return &Apart{calls: base, content: base.Clone()}
}

// RoundTrip implements http.RoundTripper.
func (t *Apart) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Pattern == opContent {
		return t.content.RoundTrip(r)
	}
	return t.calls.RoundTrip(r)
}

// CloseIdleConnections closes what nobody uses, of both sets.
func (t *Apart) CloseIdleConnections() {
	t.calls.CloseIdleConnections()
	t.content.CloseIdleConnections()
}
