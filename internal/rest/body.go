package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
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
		if r.Method != http.MethodPost { // it says nothing
			letBodyGo(r)
		}
		next(w, r, params)
	}
}

func (b bodies) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, method string) (release func(), err error) {
	if err := checkMediaType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	body, release, err := b.calls.ReadBody(ctx, w, r, method)
	if err != nil {
		return nil, err
	}
	if err := service.CheckBody(body); err != nil {
		release()
		return nil, err
	}
	r.Body = heldBody{bytes.NewReader(body), release}
	return release, nil
}

// heldBody is a body that the budget of bytes counts until it is closed.
type heldBody struct {
	io.Reader
	release func()
}

func (b heldBody) Close() error {
	b.release()
	return nil
}

// letBodyGo gives the bytes of a body back before the answer, which may take long.
func letBodyGo(r *http.Request) {
	_ = r.Body.Close() // nobody can fail at it
	r.Body = http.NoBody
}

// decodeBody reads a request from the body, where there is one.
func decodeBody(r *http.Request, req proto.Message) error {
	if err := (wholeJSON{}).NewDecoder(r.Body).Decode(req); err != nil && !errors.Is(err, io.EOF) {
		return service.InvalidRequest(unreadable(err.Error()))
	}
	return nil
}

// wholeJSON is the gateway's JSON, and takes no body in which something follows the request.
type wholeJSON struct{ *runtime.JSONPb }

// NewDecoder reads a request from a body. A body of spaces alone is none, for which the gateway knows io.EOF.
func (wholeJSON) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(into any) error {
		body, err := io.ReadAll(r) // from memory
		switch {
		case err != nil:
			return err
		case len(bytes.TrimSpace(body)) == 0:
			return io.EOF
		}
		return jsonIn.Unmarshal(body, into.(proto.Message))
	})
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
	return service.Fail(easelv1.ErrorReason_UNSUPPORTED_MEDIA_TYPE, "send the body as JSON, with Content-Type: application/json")
}
