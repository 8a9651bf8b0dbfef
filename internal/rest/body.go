package rest

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/service"
)

// readable refuses requests whose path or query is not valid text, and passes on all others.
func readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkText(r.URL); err != nil {
			writeError(w, r, err)
			return
		}
		tidyPath(r)
		next.ServeHTTP(w, r)
	})
}

// checkText refuses paths and queries that are not UTF-8, which fields can't hold.
func checkText(u *url.URL) error {
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil || !utf8.ValidString(query) || !utf8.ValidString(u.Path) {
		return service.InvalidRequest(service.Violation{Description: "the path and the query must be valid UTF-8"})
	}
	return nil
}

// bodies read the bodies of requests whole before they become calls: a body has a size and a
// time limit, which a stream of answers must not have.
type bodies struct {
	calls   Calls
	methods map[string]string // of the contract, by the verb and the template of their routes
}

func newBodies(calls Calls) bodies {
	b := bodies{calls, map[string]string{}}
	bindings(func(m protoreflect.MethodDescriptor, route binding) {
		b.methods[route.verb+" "+bareTemplate(route.template)] = service.FullMethod(m)
	})
	return b
}

// read passes a request on with its body, if the client may call. The routes of pages read no body.
func (b bodies) read(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		method, ours := b.methods[r.Method+" "+bareTemplate(routeTemplate(r))]
		if r.ContentLength == 0 || !ours {
			next(w, r, params)
			return
		}
		ctx, denied := b.calls.Authenticate(r)
		if denied != nil {
			r.Body = http.NoBody // the call behind the gateway is refused in the same way, and its body does not matter
			next(w, r, params)
			return
		}
		release, err := b.readBody(ctx, w, r, method)
		if err != nil {
			writeError(w, r, err)
			return
		}
		defer release()
		next(w, r, params)
	}
}

func (b bodies) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, method string) (release func(), err error) {
	if err := checkMediaType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	body, release, err := b.calls.ReadBody(ctx, w, r, method)
	if err == nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return release, err
}

// checkMediaType takes JSON, and a body that does not say what it is.
func checkMediaType(contentType string) error {
	if contentType == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")) {
		return nil
	}
	return service.Fail(codes.InvalidArgument, reasonMediaType, "send the body as JSON, with Content-Type: application/json")
}
