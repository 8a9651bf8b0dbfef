package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/service"
)

// readable refuses paths and queries that no handler could read, and hands on the rest.
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

// checkText refuses paths and queries that are no text, which fields can't hold.
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
	calls   *interceptor
	limit   int
	methods map[string]string // of the contract, by the verb and the template of their routes
}

func newBodies(calls *interceptor, limit int) bodies {
	b := bodies{calls, limit, map[string]string{}}
	bindings(func(m protoreflect.MethodDescriptor, route binding) {
		b.methods[route.verb+" "+bareTemplate(route.template)] = service.FullMethod(m)
	})
	return b
}

// read hands a request on with its body, if whoever sends it may call. A page reads none.
func (b bodies) read(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		method, ours := b.methods[r.Method+" "+bareTemplate(routeTemplate(r))]
		if r.ContentLength == 0 || !ours {
			next(w, r, params)
			return
		}
		ctx, denied := b.authenticate(r)
		if denied != nil {
			r.Body = http.NoBody // the call is refused as every other is, before anybody looks at what it asks
			next(w, r, params)
			return
		}
		held := b.calls.gates.bytes.of(b.calls.gates.owner(ctx, method))
		defer held.release()
		if err := b.readBody(w, r, method, &held); err != nil {
			writeError(w, r, err)
			return
		}
		next(w, r, params)
	}
}

// authenticate looks at the headers alone, as the call behind the gateway does again.
func (b bodies) authenticate(r *http.Request) (context.Context, error) {
	md := metadata.MD{"authorization": r.Header.Values("Authorization")}
	return b.calls.service.Authenticate(metadata.NewIncomingContext(r.Context(), md), certificateName(r.TLS))
}

func (b bodies) readBody(w http.ResponseWriter, r *http.Request, method string, held *heldBytes) error {
	if err := checkMediaType(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	body, err := readHeld(http.MaxBytesReader(w, r.Body, int64(b.limit)), b.limit, held)
	if err != nil {
		return b.unreadableBody(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// The answer may take longer than the body did. What is refused keeps its limit:
	// the standard library reads the rest of a body before it lets a connection go.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as in limitReads
	return held.arrived(method, len(body))
}

// readHeld reads to the end of what has limit bytes at most, and never into more memory than the
// budget has given.
func readHeld(body io.Reader, limit int, held *heldBytes) (all []byte, err error) {
	for {
		if len(all) == cap(all) {
			room := min(max(2*len(all), 4<<10), limit+1) // one more, to see the end
			if err := held.set(room); err != nil {
				return nil, err
			}
			all = append(make([]byte, 0, room), all...)
		}
		n, err := body.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// unreadableBody is the error of a body that could not be read.
func (b bodies) unreadableBody(err error) error {
	if own, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return own // the budget has no room
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return service.Fail(codes.ResourceExhausted, reasonTooLarge, fmt.Sprintf("the body is larger than %d bytes", b.limit))
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return errSlowRequest
	}
	return service.InvalidRequest(service.Violation{Description: "the body can't be read"})
}

// limitReads gives every body its time from the beginning, whoever refuses it.
func limitReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// A connection that knows no deadline goes without: only tests have such.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout))
		}
		next.ServeHTTP(w, r)
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
	return service.Fail(codes.InvalidArgument, reasonMediaType, "send the body as JSON, with Content-Type: application/json")
}
