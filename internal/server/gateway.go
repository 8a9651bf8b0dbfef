package server

import (
	"context"
	"net"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// Sizes of the connection between the gateway and the gRPC server behind it.
const (
	// gatewayPipe is what may be under way in memory, for all REST calls together.
	gatewayPipe = 256 << 10
	// gatewayStreamWindow is what the server may send ahead of one slow REST client.
	// A window that the library sizes by itself grows to megabytes here.
	gatewayStreamWindow = 128 << 10
	// gatewayConnWindow is the same for all of them together.
	gatewayConnWindow = 16 << 20
	// gatewayResponse is the largest response that is turned into JSON.
	gatewayResponse = 64 << 20
)

// gateway is the REST form of the contract: it turns requests into calls of our own
// gRPC server, in memory, so that there is one path and one set of interceptors.
type gateway struct {
	mux     *runtime.ServeMux
	client  easelv1.GenerationServiceClient
	service Service      // of the calls that take no way through a connection
	calls   *interceptor // what they pass
}

// newGateway routes the contract's REST forms to conn, and downloads through calls to service.
func newGateway(ctx context.Context, conn *grpc.ClientConn, service Service, calls *interceptor) (*gateway, error) {
	g := &gateway{client: easelv1.NewGenerationServiceClient(conn), service: service, calls: calls}
	g.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
			MarshalOptions:   jsonOut,
			UnmarshalOptions: jsonIn,
		}),
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithMetadata(describeCall),
		runtime.WithErrorHandler(handleError),
		runtime.WithRoutingErrorHandler(g.handleRoutingError),
		runtime.WithMiddlewares(nameRoute, newParameters().check),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithWriteContentLength(),
	)
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		easelv1.RegisterAccountServiceHandler,
		easelv1.RegisterModelServiceHandler,
		easelv1.RegisterGenerationServiceHandler,
	} {
		if err := register(ctx, g.mux, conn); err != nil {
			return nil, err
		}
	}
	return g, g.handleStreams()
}

// handleStreams gives the streaming calls handlers of our own. What is registered
// last is matched first.
func (g *gateway) handleStreams() error {
	for _, route := range []struct {
		method, path string
		handler      runtime.HandlerFunc
	}{
		{http.MethodGet, watchPath, g.watchGeneration},
		{http.MethodGet, watchAllPath, g.watchGenerations},
		{http.MethodGet, contentPath, g.download},
		{http.MethodHead, contentPath, g.download},
		{http.MethodDelete, waitPath, g.notTaken},
		{http.MethodDelete, watchPath, g.notTaken},
	} {
		if err := g.mux.HandlePath(route.method, route.path, route.handler); err != nil {
			return err
		}
	}
	return nil
}

// jsonOut writes every scalar, so that a reader sees false and 0 and "", and leaves
// out what is absent. Members are camelCase.
var jsonOut = protojson.MarshalOptions{EmitDefaultValues: true}

// jsonIn refuses members that the contract does not know: a misspelled option would
// be an order for something else. Nesting is bounded well below what the
// protobuf wire format takes, which needs several levels for one of JSON.
var jsonIn = protojson.UnmarshalOptions{DiscardUnknown: false, RecursionLimit: 2000}

// noHeader forwards no header by itself: describeCall and allowMetadata do.
func noHeader(string) (string, bool) { return "", false }

// dialGateway connects to the gRPC server behind the gateway.
func dialGateway(pipe *bufconn.Listener) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///easel",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(allowMetadataUnary),
		grpc.WithStreamInterceptor(allowMetadataStream),
		grpc.WithStaticStreamWindowSize(gatewayStreamWindow),
		grpc.WithStaticConnWindowSize(gatewayConnWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(gatewayResponse)),
		grpc.WithDisableRetry(), // every attempt is the caller's own
		grpc.WithIdleTimeout(0),
	)
}

func allowMetadataUnary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(allowMetadata(ctx), method, req, reply, conn, opts...)
}

func allowMetadataStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return stream(allowMetadata(ctx), desc, conn, method, opts...)
}

// allowMetadata is the whole list of what a REST call carries into a gRPC call: the
// credential, what describeCall says, and the trace that the HTTP span is part of.
func allowMetadata(ctx context.Context) context.Context {
	all, _ := metadata.FromOutgoingContext(ctx)
	allowed := metadata.MD{}
	for _, key := range []string{"authorization", metadataPeer, metadataCertificate, metadataIdempotencyKey} {
		if values := all.Get(key); len(values) > 0 {
			allowed[key] = values
		}
	}
	trace := propagation.MapCarrier{}
	otel.GetTextMapPropagator().Inject(ctx, trace)
	for key, value := range trace {
		allowed.Set(key, value)
	}
	return metadata.NewOutgoingContext(ctx, allowed)
}

// annotate prepares the context of a call that a handler of our own makes, just as
// the generated handlers do: credential, origin, deadline.
func (g *gateway) annotate(ctx context.Context, r *http.Request, method, path string) (context.Context, error) {
	return runtime.AnnotateContext(ctx, g.mux, r, method, runtime.WithHTTPPathPattern(path))
}

// query reads the query parameters that are fields of a request, except those that
// the path has set.
func query(r *http.Request, req proto.Message, fromPath ...string) error {
	if err := r.ParseForm(); err != nil {
		return service.InvalidRequest(service.Violation{Description: "the query can't be read: " + err.Error()})
	}
	if err := runtime.PopulateQueryParameters(req, r.Form, pathFilter(fromPath)); err != nil {
		return service.InvalidRequest(unreadable(err.Error()))
	}
	return nil
}
