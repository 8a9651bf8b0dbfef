package server

import (
	"context"
	"crypto/tls"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // registers gzip, so that callers can use compression
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/service"
)

// newPublicGRPC returns the gRPC server for callers on the network.
func newPublicGRPC(config Config, chain *chain, health healthServer, certificates *reload.Value[*tls.Config]) *grpc.Server {
	limits, encryption := config.Limits, insecure.NewCredentials()
	if certificates != nil {
		encryption = credentials.NewTLS(newestCertificates(certificates))
	}
	server := grpc.NewServer(append(chain.options(originOfPeer),
		grpc.InTapHandle(chain.rejectStrangers),
		grpc.Creds(handshakes{encryption, chain}),
		grpc.MaxConcurrentStreams(limits.streamsPerConn()),
		grpc.MaxHeaderListSize(headerBytes),
		// Without fixed sizes, the gRPC library lets the windows grow to 16 MiB.
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveIdle, Timeout: keepaliveTimeout, MaxConnectionAge: limits.connAge()}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMinimum, PermitWithoutStream: true}),
	)...)
	config.Service.Register(server)
	grpc_health_v1.RegisterHealthServer(server, health)
	reflection.Register(server)
	chain.register(server)
	return server
}

// newRESTGRPC returns the in-memory gRPC server for REST requests. [Local] is the only connection
// to it.
func newRESTGRPC(config Config, chain *chain) *grpc.Server {
	server := grpc.NewServer(append(chain.options(chain.originOfRequest),
		grpc.MaxConcurrentStreams(math.MaxUint32), // effectively unlimited, because all REST calls share one connection
	)...)
	config.Service.Register(server)
	return server
}

// healthServer is the standard health service, except that it ends a watch after it has sent NOT_SERVING. Otherwise, open watches
// would block a graceful stop.
type healthServer struct{ *health.Server }

func newHealthServer() healthServer {
	h := healthServer{health.NewServer()}
	h.set(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	return h
}

func (h healthServer) set(status grpc_health_v1.HealthCheckResponse_ServingStatus) {
	h.SetServingStatus("", status)
	for _, s := range service.Services() {
		h.SetServingStatus(string(s.FullName()), status)
	}
}

// setServing sets the status of all services to SERVING. The status remains SERVING until Shutdown changes it to NOT_SERVING.
func (h healthServer) setServing() { h.set(grpc_health_v1.HealthCheckResponse_SERVING) }

func (h healthServer) serving(ctx context.Context) bool {
	answer, err := h.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
}

// Watch implements the health service.
func (h healthServer) Watch(req *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	return h.Server.Watch(req, &healthStream{stream, ctx, cancel})
}

type healthStream struct {
	grpc_health_v1.Health_WatchServer
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *healthStream) Context() context.Context { return s.ctx }

func (s *healthStream) Send(answer *grpc_health_v1.HealthCheckResponse) error {
	err := s.Health_WatchServer.Send(answer)
	if answer.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		s.cancel()
	}
	return err
}
