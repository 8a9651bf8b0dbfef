package catalog

import (
	"context"
	"errors"
	"net/http"
)

// Apart is a transport with three sets of connections: one for the bytes of results, one
// for what only reads, one for all else. A download holds its connection until its reader is
// done, which may be minutes; without this a few hundred slow readers would keep every order
// from leaving.
type Apart struct {
	calls, content *http.Transport
	reads          *direct // nil where the stock transport has to do it
}

// KeepApart makes one of base, which serves calls from then on; each set has the limits
// of base, which are not to be changed any more.
func KeepApart(base *http.Transport) *Apart {
	return &Apart{calls: base, content: base.Clone(), reads: newDirect(base)}
}

// RoundTrip implements http.RoundTripper. Where an attempt got no answer in its time, the
// connections that nobody uses are closed: what made one of them silent may have made all
// so, and each would cost another attempt.
func (t *Apart) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.set(r).RoundTrip(r)
	if err != nil && errors.Is(context.Cause(r.Context()), errSilent) {
		t.CloseIdleConnections()
	}
	return resp, err
}

func (t *Apart) set(r *http.Request) http.RoundTripper {
	switch {
	case r.Pattern == opContent:
		return t.content
	case t.reads.suits(r):
		return t.reads
	}
	return t.calls
}

// CloseIdleConnections closes what nobody uses, of all sets.
func (t *Apart) CloseIdleConnections() {
	t.calls.CloseIdleConnections()
	t.content.CloseIdleConnections()
	if t.reads != nil {
		t.reads.idle.close()
	}
}
