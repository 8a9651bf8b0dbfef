package server

import (
	"context"
	"net/http"
)

// Connections to the admin address, and to that of metrics: of one address; of all.
const operatorConnsOfAddress, operatorConns = 64, 256

// ProveOperators is prove, which gives the name of the operator that the authorization of a request proves. The connection
// of whoever has proved to be one makes no room for others.
func ProveOperators(prove func(ctx context.Context, authorization []string) (name string, err error)) func(context.Context, []string) (string, error) {
	return func(ctx context.Context, authorization []string) (string, error) {
		name, err := prove(ctx, authorization)
		if err == nil {
			limitedConnOf(ctx).prove()
		}
		return name, err
	}
}

// countAsked counts the requests that are under way on each connection. One that has any makes room for others last, and
// not never: whoever asks without a credential, and reads no answer, could keep all rooms.
func countAsked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := limitedConnOf(r.Context()); c != nil {
			c.asked.Add(1)
			defer c.asked.Add(-1)
		}
		next.ServeHTTP(w, r)
	})
}
