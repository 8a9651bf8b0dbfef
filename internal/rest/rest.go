// Package rest serves the contract over HTTP: unary calls as JSON, watches as event streams, and results as files with ranges. It
// also serves the web console and other web pages.
//
// A request becomes a call to an in-memory gRPC server, which processes calls in the same chain of steps as the public server.
// The generated gateway sends the unary calls, and handlers in this package send the watches. Downloads do not use the in-memory
// connection. Their handler runs the chain itself and copies the bytes directly from the service.
package rest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/rest/console"
	"github.com/easel-grpc/easel/internal/service"
)

// Calls is a connection to the gRPC server that handles the requests. Package server implements it.
type Calls interface {
	grpc.ClientConnInterface
	// Admit returns an error if a request to a method has no credential, or a credential that cannot be valid.
	Admit(r *http.Request, method string) error
	// MaxBody returns the maximum size of a request's body, in bytes.
	MaxBody() int64
	// Metadata returns the gRPC metadata of the call for a REST request.
	Metadata(ctx context.Context, r *http.Request) metadata.MD
	// Call runs a call through the server's chain of processing steps, without the in-memory connection. serveCall runs instead
	// of the method's handler. For each message that it sends, serveCall must pass the number of result bytes in the message to
	// countBytes.
	Call(ctx context.Context, method string, req proto.Message, serveCall func(ctx context.Context, countBytes func(bytes int)) error) error
}

// Config is the configuration of the REST API. Calls and Content are required.
type Config struct {
	Calls Calls
	// Content opens the result of a generation, as DownloadGeneration does.
	Content func(context.Context, *easelv1.DownloadGenerationRequest) (*service.Content, error)
	// OpenAPI is the document at /openapi.json. Nil means that there is no such document.
	OpenAPI []byte
	// Pages maps paths to the handlers of web pages. The handlers serve GET and HEAD without a credential.
	Pages map[string]http.Handler
	// Addr is the address of the HTTP listener. AllowedHosts contains the host names that are accepted in requests. localhost and
	// loopback addresses are always accepted. If AllowedHosts is empty, other hosts are accepted only if Addr is not a loopback
	// address.
	Addr         string
	AllowedHosts []string
}

// New returns the handler of the HTTP listener.
func New(config Config) (http.Handler, error) {
	gateway, err := newGateway(config)
	if err == nil {
		err = handlePages(gateway, config)
	}
	if err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	handler := crossorigin.RefuseWrites(rejectInvalidUTF8(gateway), writeError)
	handler = crossorigin.PublicHosts(config.AllowedHosts, config.Addr).RefuseOthers(handler, writeError)
	return limitReads(limitWrites(securityHeaders(traceRequests(handler)))), nil
}

// securityHeaders returns a handler that sets security headers on every response and then calls next. By default, the headers
// forbid caching, because most responses are intended for only one caller. next may set another Cache-Control header.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// handlePages adds routes for the console, the other pages and the OpenAPI document to the gateway.
func handlePages(gateway *runtime.ServeMux, config Config) error {
	pages := map[string]http.Handler{}
	maps.Copy(pages, console.Handlers())
	maps.Copy(pages, config.Pages)
	if len(config.OpenAPI) > 0 {
		pages["/openapi.json"] = document(config.OpenAPI)
	}
	for path, page := range pages {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			handler := func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
				if strings.Contains(r.Header.Get("Range"), ",") { // as in a download, a request for several ranges receives the complete file
					r.Header.Del("Range")
				}
				page.ServeHTTP(w, r)
			}
			if err := gateway.HandlePath(method, path, handler); err != nil {
				return fmt.Errorf("route %s: %w", path, err)
			}
		}
	}
	return nil
}

// document returns a handler that serves a fixed JSON document.
func document(body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}
