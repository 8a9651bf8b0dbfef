package server

import (
	"context"
	"net"

	"google.golang.org/grpc/test/bufconn"
)

func pipeDialer(pipe *bufconn.Listener) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
}

func grpcDialer(pipe *bufconn.Listener) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
}
