package admin

import (
	"context"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
)

// Routes returns the routes, keyed by pattern. The value is true if the route is open, which means that it does not require
// an operator.
func Routes() map[string]bool {
	all := map[string]bool{}
	for _, r := range (Config{}).routes() {
		all[r.pattern] = r.open
	}
	return all
}

// forOperators returns a handler that rejects requests from clients that are not operators. For the audit log, the handler
// stores the operator in the request's context.
func (c Config) forOperators(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by, err := c.operator(r)
		if err != nil {
			refuseRequest(w, err)
			return
		}
		next(w, r.WithContext(withBy(r.Context(), by)))
	}
}

var errNoOperators = status.Error(codes.PermissionDenied, "without a callers file only a client on this machine is an operator; "+
	"connect over loopback, or name operators in EASEL_CALLERS_FILE")

// anonymous is the name that every operator has if there is no callers file.
const anonymous = "anonymous"

// operator returns the operator that sent a request. Without a callers file, every client on this machine is an operator.
func (c Config) operator(r *http.Request) (by ledger.By, err error) {
	by = ledger.By{Actor: anonymous, Origin: r.RemoteAddr}
	switch {
	case c.Prove != nil:
		by.Actor, err = c.Prove(r.Context(), authorization(r))
	case !isLocal(r):
		err = errNoOperators
	}
	return by, err
}

// isLocal reports whether a request comes from this machine. It returns false if a proxy forwarded the request.
func isLocal(r *http.Request) bool {
	return crossorigin.IsLoopback(r.RemoteAddr) && r.Header.Get("X-Forwarded-For") == "" && r.Header.Get("Forwarded") == ""
}

// authorization returns the Authorization headers of a request. It converts basic authentication, which browsers use, to a
// bearer token: the password is the operator's token.
func authorization(r *http.Request) []string {
	if _, token, ok := r.BasicAuth(); ok {
		return []string{"Bearer " + token}
	}
	return r.Header.Values("Authorization")
}

// refuseRequest writes the response for a rejected request: a request that does not come from an operator, a request from a web
// page of another origin, or a request whose Host header is not allowed.
func refuseRequest(w http.ResponseWriter, why error) {
	st, code := status.Convert(why), http.StatusServiceUnavailable
	switch {
	case st.Code() == codes.Unauthenticated:
		code = http.StatusUnauthorized
		w.Header()["Www-Authenticate"] = []string{"Bearer", `Basic realm="Easel: the password is an operator's token"`}
	case service.Reason(st) == easelv1.ErrorReason_HOST_NOT_ALLOWED:
		code = http.StatusMisdirectedRequest
	case st.Code() == codes.PermissionDenied:
		code = http.StatusForbidden
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, st.Message(), code)
}

type byKey struct{}

// withBy returns a context that contains the operator.
func withBy(ctx context.Context, by ledger.By) context.Context {
	return context.WithValue(ctx, byKey{}, by)
}

// byOf returns the operator in a context. If there is no operator, it returns the zero value, for which the ledger rejects
// every action.
func byOf(ctx context.Context) ledger.By {
	by, _ := ctx.Value(byKey{}).(ledger.By)
	return by
}
