package server

import (
	"context"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // callers may compress; importing it is how it is switched on
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

// newPublicGRPC is the gRPC server that callers reach.
func (s *Server) newPublicGRPC() *grpc.Server {
	limits := s.config.Limits
	options := append(s.grpcOptions(peerOrigin),
		grpc.MaxConcurrentStreams(limits.streamsPerConn()),
		grpc.MaxHeaderListSize(uint32(limits.headerBytes())),
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
	if s.certificates != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(newestCertificates(s.certificates))))
	}
	server := grpc.NewServer(options...)
	s.config.Service.Register(registrar{server})
	grpc_health_v1.RegisterHealthServer(server, s.health)
	if !s.config.DisableReflection {
		reflection.Register(server)
	}
	return server
}

// newRESTGRPC is the gRPC server behind the REST gateway. It is reached in memory
// alone, which is why it may believe what the gateway says of a caller.
func (s *Server) newRESTGRPC() *grpc.Server {
	server := grpc.NewServer(append(s.grpcOptions(restOrigin),
		grpc.MaxConcurrentStreams(math.MaxUint32), // every REST call is a stream of the one connection
	)...)
	s.config.Service.Register(registrar{server})
	return server
}

// interceptor is what all calls pass that come from where from says.
func (s *Server) interceptor(from func(context.Context) origin) *interceptor {
	return &interceptor{service: s.config.Service, rules: s.rules, gates: s.gates, tracing: s.tracing, calls: s.calls, logger: s.logger, origin: from}
}

// grpcOptions are what both servers have in common.
func (s *Server) grpcOptions(from func(context.Context) origin) []grpc.ServerOption {
	intercept := s.interceptor(from)
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.config.Limits.messageBytes()),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.StatsHandler(s.calls),
		grpc.UnaryInterceptor(intercept.unary),
		grpc.StreamInterceptor(intercept.stream),
	}
}
