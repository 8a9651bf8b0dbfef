package server

import (
	"context"
	"net"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
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

// newGateway is the REST form of the contract: it turns requests into calls of our own gRPC
// server, which conn reaches in memory, so that there is one path and one set of interceptors.
// Downloads go through calls to service.
func newGateway(ctx context.Context, conn *grpc.ClientConn, service Service, calls *interceptor, bodyLimit int) (*runtime.ServeMux, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
			MarshalOptions:   jsonOut,
			UnmarshalOptions: jsonIn,
		}),
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithMetadata(describeCall),
		runtime.WithErrorHandler(handleError),
		runtime.WithRoutingErrorHandler(handleRoutingError),
		runtime.WithMiddlewares(nameRoute, newParameters().check, newBodies(calls, bodyLimit).read),
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
		if err := register(ctx, mux, conn); err != nil {
			return nil, err
		}
	}
	streams := eventStreams{mux: mux, client: easelv1.NewGenerationServiceClient(conn)}
	return mux, handleStreams(mux, streams, downloads{mux: mux, service: service, calls: calls})
}

// handleStreams gives the streaming calls handlers of our own. What is registered
// last is matched first.
func handleStreams(mux *runtime.ServeMux, streams eventStreams, files downloads) error {
	for _, route := range []struct {
		method, path string
		handler      runtime.HandlerFunc
	}{
		{http.MethodGet, watchPath, streams.watchGeneration},
		{http.MethodGet, watchAllPath, streams.watchGenerations},
		{http.MethodGet, contentPath, files.serve},
		{http.MethodHead, contentPath, files.serve},
		{http.MethodDelete, waitPath, methodNotTaken(mux)},
		{http.MethodDelete, watchPath, methodNotTaken(mux)},
	} {
		if err := mux.HandlePath(route.method, route.path, route.handler); err != nil {
			return err
		}
	}
	return nil
}

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
