package server

import (
	"crypto/tls"
	"math"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // callers may compress; importing it is how it is switched on
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/service"
)

// newPublicGRPC is the gRPC server that callers reach.
func newPublicGRPC(config Config, calls *interceptor, health *healthServer, certificates *reload.Value[*tls.Config]) *grpc.Server {
	limits := config.Limits
	options := append(grpcOptions(config, calls),
		grpc.MaxConcurrentStreams(limits.streamsPerConn()),
		grpc.MaxHeaderListSize(headerBytes),
		// How many bytes a call may send before they are read. Windows that the library sizes by
		// itself grow to 16 MiB.
		grpc.StaticStreamWindowSize(largeRequest),
		grpc.StaticConnWindowSize(connWindow),
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
	all := guarded{server, calls}
	config.Service.Register(all)
	grpc_health_v1.RegisterHealthServer(all, health)
	reflection.Register(all) // it needs no credential
	return server
}

// newRESTGRPC is the gRPC server that Local reaches. It has no other clients, so it may believe the
// metadata that Local writes about a caller.
func newRESTGRPC(config Config, calls *interceptor) *grpc.Server {
	server := grpc.NewServer(append(grpcOptions(config, calls),
		grpc.MaxConcurrentStreams(math.MaxUint32), // every REST call is a stream of the one connection
	)...)
	config.Service.Register(guarded{server, calls})
	return server
}

// grpcOptions are what both servers have in common.
func grpcOptions(config Config, calls *interceptor) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(config.Limits.messageBytes()),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.StatsHandler(calls.stats),
		grpc.StreamInterceptor(calls.stream),
		grpc.UnknownServiceHandler(refuseUnknown),
	}
}

// refuseUnknown refuses a call that no service has, with a reason, which the library's own refusal would not have.
func refuseUnknown(any, grpc.ServerStream) error {
	return service.Fail(easelv1.ErrorReason_UNIMPLEMENTED, "this server has no such call: it is older than the caller's stubs, or its name is wrong")
}

// guarded registers services so that each call passes the interceptor before its request is
// received. The library calls its own interceptor of unary calls later, when the request is in memory.
type guarded struct {
	*grpc.Server
	calls *interceptor
}

// RegisterService implements grpc.ServiceRegistrar. It registers a unary call as a stream of one message
// each way.
func (g guarded) RegisterService(service *grpc.ServiceDesc, handlers any) {
	described := *service
	described.Methods, described.Streams = nil, slices.Clone(service.Streams)
	for _, m := range service.Methods {
		handler := g.calls.unary("/"+service.ServiceName+"/"+m.MethodName, m.Handler)
		described.Streams = append(described.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: handler})
	}
	g.Server.RegisterService(&described, handlers)
}
