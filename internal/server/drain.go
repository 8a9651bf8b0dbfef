package server

import (
	"context"
	"net/http"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// stop ends everything in order: nobody is sent here any more, open streams are told,
// calls may end, and what has not ended in time is cut off. Operators can look until
// last.
func (s *Server) stop(run *servers) {
	// Not the context of Serve: that has ended, and calls must have time.
	ctx, cancel := context.WithTimeout(context.Background(), s.config.drainTimeout())
	defer cancel()
	s.logger.Info("draining", "timeout_ms", s.config.drainTimeout().Milliseconds())
	s.health.shutdown()
	s.config.Service.Drain()

	var group errgroup.Group
	group.Go(func() error { s.stopGRPC(ctx, "grpc", run.public); return nil })
	group.Go(func() error {
		s.stopHTTP(ctx, "http", run.http)
		s.stopGRPC(ctx, "rest", run.rest) // requests are its callers, so it stops after them
		return nil
	})
	_ = group.Wait() // the steps log what they have to say
	s.stopHTTP(ctx, "admin", run.admin)
	s.logger.Info("stopped")
}

// stopGRPC lets calls end until ctx does.
func (s *Server) stopGRPC(ctx context.Context, name string, server *grpc.Server) {
	cut := context.AfterFunc(ctx, func() {
		s.logger.Warn("calls were cut off", "server", name)
		server.Stop()
	})
	defer cut()
	server.GracefulStop()
}

// stopHTTP lets requests end until ctx does.
func (s *Server) stopHTTP(ctx context.Context, name string, server *http.Server) {
	if err := server.Shutdown(ctx); err != nil {
		s.logger.Warn("requests were cut off", "server", name, "error", err)
		_ = server.Close() // nothing is left to be told
	}
}
