package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// newGateway routes the requests of the contract: generated handlers turn them into calls, and the
// streaming calls have handlers of our own.
func newGateway(config Config) (*runtime.ServeMux, error) {
	entrance := newEntrance(config.Calls)
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, wholeJSON{&runtime.JSONPb{
			MarshalOptions:   jsonOut,
			UnmarshalOptions: jsonIn,
		}}),
		runtime.WithForwardResponseRewriter(write),
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithMetadata(config.Calls.Metadata),
		runtime.WithErrorHandler(handleError),
		runtime.WithRoutingErrorHandler(handleRoutingError),
		runtime.WithMiddlewares(nameRoute, entrance.enter, newParameters().check, entrance.readBody),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithWriteContentLength(),
	)
	unused := context.Background() // a registration waits for nothing
	accounts, generations := easelv1.NewAccountServiceClient(config.Calls), easelv1.NewGenerationServiceClient(config.Calls)
	err := errors.Join(
		easelv1.RegisterAccountServiceHandlerClient(unused, mux, accounts),
		easelv1.RegisterModelServiceHandlerClient(unused, mux, easelv1.NewModelServiceClient(config.Calls)),
		easelv1.RegisterGenerationServiceHandlerClient(unused, mux, generations),
	)
	if err != nil {
		return nil, err
	}
	return mux, handleStreams(mux, eventStreams{mux: mux, accounts: accounts, client: generations}, downloads{mux: mux, calls: config.Calls, content: config.Content})
}

// handleStreams gives the streaming calls handlers of our own. The route that is registered last is
// matched first.
func handleStreams(mux *runtime.ServeMux, streams eventStreams, files downloads) error {
	for _, route := range []struct {
		method, path string
		handler      runtime.HandlerFunc
	}{
		{http.MethodGet, watchAccountPath, streams.watchAccount},
		{http.MethodGet, watchPath, streams.watchGeneration},
		{http.MethodGet, watchAllPath, streams.watchGenerations},
		{http.MethodPost, watchAllPath, streams.watchGenerations},
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

// noHeader forwards no header by itself: Calls writes the metadata of a call.
func noHeader(string) (string, bool) { return "", false }
