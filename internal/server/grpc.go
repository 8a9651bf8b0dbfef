package server

import (
	"crypto/tls"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // callers may compress; importing it is how it is switched on
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/easel-grpc/easel/internal/reload"
)

// newPublicGRPC is the gRPC server that callers reach.
func newPublicGRPC(config Config, calls *interceptor, health *healthServer, certificates *reload.Value[*tls.Config]) *grpc.Server {
	limits := config.Limits
	options := append(grpcOptions(config, calls),
		grpc.MaxConcurrentStreams(limits.streamsPerConn()),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time:             keepaliveIdle,
			Timeout:          keepaliveTimeout,
			MaxConnectionAge: limits.connAge(),
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             keepaliveMinimum,
			PermitWithoutStream: true,
		}),
	)
	if certificates != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(newestCertificates(certificates))))
	}
	server := grpc.NewServer(options...)
	config.Service.Register(server)
	grpc_health_v1.RegisterHealthServer(server, health)
	reflection.Register(server) // it needs no credential
	return server
}

// newRESTGRPC is the gRPC server behind the REST gateway. It is reached in memory
// alone, which is why it may believe what the gateway says of a caller.
func newRESTGRPC(config Config, calls *interceptor) *grpc.Server {
	server := grpc.NewServer(append(grpcOptions(config, calls),
		grpc.MaxConcurrentStreams(math.MaxUint32), // every REST call is a stream of the one connection
	)...)
	config.Service.Register(server)
	return server
}

// grpcOptions are what both servers have in common.
func grpcOptions(config Config, calls *interceptor) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(config.Limits.messageBytes()),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.StatsHandler(calls.stats),
		grpc.UnaryInterceptor(calls.unary),
		grpc.StreamInterceptor(calls.stream),
	}
}
