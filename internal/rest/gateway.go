package rest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	gatewayv1 "github.com/easel-grpc/easel/gen/gateway/easel/v1"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// newGateway returns the router for REST requests. Unary calls have generated handlers. Streaming calls have handlers in this
// package.
func newGateway(config Config) (*runtime.ServeMux, error) {
	entrance := newEntrance(config.Calls)
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, wholeJSON{&runtime.JSONPb{
			MarshalOptions:   jsonOut,
			UnmarshalOptions: jsonIn,
		}}),
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithMetadata(config.Calls.Metadata),
		runtime.WithErrorHandler(handleError),
		runtime.WithRoutingErrorHandler(handleRoutingError),
		runtime.WithMiddlewares(nameRoute, entrance.admit, newParameters().rejectUnknown, entrance.readBody),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash),
		runtime.WithStrictDeepWildcardMatching(), // without this option, the path /v1/models/ would match a route with an empty model ID
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithWriteContentLength(),
	)
	unused := context.Background() // the registration functions require a context, but do not use it
	generations := easelv1.NewGenerationServiceClient(config.Calls)
	err := errors.Join(
		gatewayv1.RegisterAccountServiceHandlerClient(unused, mux, easelv1.NewAccountServiceClient(config.Calls)),
		gatewayv1.RegisterModelServiceHandlerClient(unused, mux, easelv1.NewModelServiceClient(config.Calls)),
		gatewayv1.RegisterGenerationServiceHandlerClient(unused, mux, generations),
	)
	if err != nil {
		return nil, err
	}
	return mux, handleStreams(mux, eventStreams{mux: mux, client: generations}, downloads{mux: mux, calls: config.Calls, content: config.Content})
}

// handleStreams adds the handlers of streaming calls. It also adds handlers that reject DELETE requests to the paths of waits
// and watches. It must run after the generated handlers are registered, because the router tries the last registered route
// first.
func handleStreams(mux *runtime.ServeMux, streams eventStreams, files downloads) error {
	for _, route := range []struct {
		method, path string
		handler      runtime.HandlerFunc
	}{
		{http.MethodGet, watchPath, streams.watchGeneration},
		{http.MethodGet, watchAllPath, streams.watchGenerations},
		{http.MethodPost, watchAllPath, streams.watchGenerations},
		{http.MethodGet, eventsPath, streams.watchEvents},
		{http.MethodGet, contentPath, files.serve},
		{http.MethodHead, contentPath, files.serve},
		{http.MethodDelete, waitPath, methodNotAllowed(mux)},
		{http.MethodDelete, watchPath, methodNotAllowed(mux)},
	} {
		if err := mux.HandlePath(route.method, route.path, route.handler); err != nil {
			return err
		}
	}
	return nil
}

// noHeader returns false for every header, so that the gateway forwards no headers in either direction. [Calls] sets the
// metadata of the calls instead.
func noHeader(string) (string, bool) { return "", false }

// Paths of the routes that have handlers in this package instead of generated ones.
const (
	eventsPath   = "/v1/events:watch"
	waitPath     = "/v1/generations/{generation_id}:wait"
	watchPath    = "/v1/generations/{generation_id}:watch"
	watchAllPath = "/v1/generations:watch"
	contentPath  = "/v1/generations/{generation_id}/content"
)

// binding is an HTTP route of a gRPC method.
type binding struct {
	verb, template string
	inBody         bool // whether the body contains the whole request
}

// inPath reports whether a field of the request is part of the path.
func (b binding) inPath(field protoreflect.Name) bool {
	return strings.Contains(bareTemplate(b.template), "{"+string(field)+"}")
}

// bareTemplate removes the patterns of fields, such as "=**", from a route template.
func bareTemplate(template string) string {
	return strings.NewReplacer("=**}", "}", "=*}", "}").Replace(template)
}

// visitRoutes calls fn for every HTTP route of every method in the contract.
func visitRoutes(fn func(protoreflect.MethodDescriptor, binding)) {
	service.Methods(func(m protoreflect.MethodDescriptor) {
		rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok {
			return
		}
		for _, rule := range slices.Concat([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()) {
			switch pattern := rule.GetPattern().(type) {
			case *annotations.HttpRule_Get:
				fn(m, binding{verb: http.MethodGet, template: pattern.Get})
			case *annotations.HttpRule_Post:
				fn(m, binding{verb: http.MethodPost, template: pattern.Post, inBody: rule.GetBody() == "*"})
			case *annotations.HttpRule_Delete:
				fn(m, binding{verb: http.MethodDelete, template: pattern.Delete})
			}
		}
	})
}

// jsonOut also writes fields that have their default value, such as false, 0 or "". Field names are in camelCase.
var jsonOut = protojson.MarshalOptions{EmitDefaultValues: true}

// jsonIn rejects unknown fields. If it ignored them, a request with a misspelled option could place an unintended order. The
// recursion limit for JSON is well below the limit of the protobuf wire format, because one level of JSON takes several levels
// of the wire format.
var jsonIn = protojson.UnmarshalOptions{DiscardUnknown: false, RecursionLimit: 2000}
