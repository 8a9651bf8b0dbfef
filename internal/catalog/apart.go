package catalog

import (
	"context"
	"errors"
	"net/http"
)

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

// RoundTrip implements http.RoundTripper. Where an attempt got no answer in its time, the
// connections that nobody uses are closed: what made one of them silent may have made all
// so, and each would cost another attempt.
func (t *Apart) RoundTrip(r *http.Request) (*http.Response, error) {
	set := t.calls
	if r.Pattern == opContent {
		set = t.content
	}
	resp, err := set.RoundTrip(r)
	if err != nil && errors.Is(context.Cause(r.Context()), errSilent) {
		t.CloseIdleConnections()
	}
	return resp, err
}

// CloseIdleConnections closes what nobody uses, of both sets.
func (t *Apart) CloseIdleConnections() {
	t.calls.CloseIdleConnections()
	t.content.CloseIdleConnections()
}
