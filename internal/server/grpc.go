package server

import (
	"crypto/tls"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // callers may compress; importing it is how it is switched on
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/easel-grpc/easel/internal/reload"
)

// newPublicGRPC is the gRPC server that callers reach.
func newPublicGRPC(config Config, door *door, health *healthServer, certificates *reload.Value[*tls.Config]) *grpc.Server {
	limits, encryption := config.Limits, insecure.NewCredentials()
	if certificates != nil {
		encryption = credentials.NewTLS(newestCertificates(certificates))
	}
	server := grpc.NewServer(append(door.options(grpc.InTapHandle(door.tap), limits.messageBytes()),
		grpc.Creds(watched{encryption}),
		grpc.MaxConcurrentStreams(limits.streamsPerConn()),
		grpc.MaxHeaderListSize(headerBytes),
		// How many bytes a call may send before they are read. Windows that the library sizes by
		// itself grow to 16 MiB.
		grpc.StaticStreamWindowSize(streamWindow),
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
	)...)
	all := registrar{server, door}
	config.Service.Register(all)
	grpc_health_v1.RegisterHealthServer(all, health)
	reflection.Register(all) // it needs no credential
	return server
}

// newRESTGRPC is the gRPC server that Local reaches. It has no other clients.
func newRESTGRPC(config Config, door *door) *grpc.Server {
	server := grpc.NewServer(append(door.options(grpc.InTapHandle(door.tapLocal), config.Limits.messageBytes()),
		grpc.MaxConcurrentStreams(math.MaxUint32), // every REST call is a stream of the one connection
	)...)
	config.Service.Register(registrar{server, door})
	return server
}
