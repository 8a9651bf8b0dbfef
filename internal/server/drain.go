package server

import (
	"context"
	"log/slog"
	"net/http"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// servers run between the start of Serve and its end.
type servers struct {
	public, rest *grpc.Server
	http, admin  *http.Server
	pipe         *bufconn.Listener // between local and rest
	local        *Local
}

// stop lets calls end until ctx does, and then cuts off the others. The admin listener stops last.
func (run *servers) stop(ctx context.Context, logger *slog.Logger) {
	var group errgroup.Group
	group.Go(func() error { stopGRPC(ctx, logger, "grpc", run.public); return nil })
	group.Go(func() error {
		stopHTTP(ctx, logger, "http", run.http)
		stopGRPC(ctx, logger, "rest", run.rest) // requests make its calls, so it stops after them
		return nil
	})
	_ = group.Wait() // the steps log what they have to say
	stopHTTP(ctx, logger, "admin", run.admin)
}

// stopGRPC lets calls end until ctx does.
func stopGRPC(ctx context.Context, logger *slog.Logger, name string, server *grpc.Server) {
	cut := context.AfterFunc(ctx, func() {
		logger.Warn("calls were cut off", "server", name)
		server.Stop()
	})
	defer cut()
	server.GracefulStop()
}

// stopHTTP lets requests end until ctx does.
func stopHTTP(ctx context.Context, logger *slog.Logger, name string, server *http.Server) {
	if err := server.Shutdown(ctx); err != nil {
		logger.Warn("requests were cut off", "server", name, "error", err)
		_ = server.Close() // the failure was logged
	}
}
