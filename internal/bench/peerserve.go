package main

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"buf.build/go/protovalidate"
	validate "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/protovalidate"
	gateway "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	gatewayv1 "github.com/easel-grpc/easel/gen/gateway/easel/v1"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// peerRole is the first argument that makes this program run as the peer, the facade that Easel is compared with.
const peerRole = "peer"

// runPeer serves the peer, the facade that Easel is compared with, until standard input is closed. This happens
// when the program that started the peer exits.
func runPeer(args []string) error {
	flags := flag.NewFlagSet("peer", flag.ExitOnError)
	upstream := flags.String("upstream", "", "base address of the catalog")
	every := flags.Duration("every", peerInterval, "time between two polls of a generation")
	_ = flags.Parse(args) // exits on error
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	metrics, err := startPeerTelemetry(ctx)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 256, 256 // with the default of 2 idle connections per host, concurrent calls would often open new connections
	facade := &peer{
		polling: ctx, pollers: map[pollerKey]*poller{}, every: *every,
		catalog: &peerCatalog{base: *upstream, client: &http.Client{Transport: otelhttp.NewTransport(transport)}},
	}
	addr, err := servePeerGRPC(facade)
	if err != nil {
		return err
	}
	rest, err := newPeerGateway(ctx, addr)
	if err != nil {
		return err
	}
	if err := serveHTTP("http", rest); err != nil {
		return err
	}
	admin := http.NewServeMux()
	admin.Handle("/metrics", metrics)
	admin.HandleFunc("/debug/pprof/", pprof.Index)
	if err := serveHTTP("admin", admin); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// listen listens on a free local port, and logs the address in the same format as easel.
func listen(name string) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		slog.New(slog.NewJSONHandler(os.Stderr, nil)).Info("listening", "server", name, "addr", l.Addr().String())
	}
	return l, err
}

// serveHTTP starts an HTTP server for the handler on a free local port.
func serveHTTP(name string, handler http.Handler) error {
	l, err := listen(name)
	if err == nil {
		go func() { _ = http.Serve(l, handler) }()
	}
	return err
}

// startPeerTelemetry exports traces and metrics as OpenTelemetry's environment variables specify, and returns the
// handler of the Prometheus metrics.
func startPeerTelemetry(ctx context.Context) (http.Handler, error) {
	spans, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, err
	}
	exported, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	scraped, err := promexporter.New(promexporter.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithBatcher(spans)))
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(scraped), metric.WithReader(exported)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), runtime.Start()
}

// servePeerGRPC starts a gRPC server for the facade on a free local port, and returns its address.
func servePeerGRPC(facade *peer) (addr string, err error) {
	validator, err := protovalidate.New()
	if err != nil {
		return "", err
	}
	calls := peerLog{slog.New(slog.NewJSONHandler(os.Stderr, nil))}
	server := grpc.NewServer(
		grpc.StatsHandler(otelgrpc.NewServerHandler()),
		grpc.ChainUnaryInterceptor(calls.unary, validate.UnaryServerInterceptor(validator)),
		grpc.ChainStreamInterceptor(calls.stream, validate.StreamServerInterceptor(validator)),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 15 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	easelv1.RegisterGenerationServiceServer(server, facade)
	l, err := listen("grpc")
	if err != nil {
		return "", err
	}
	go func() { _ = server.Serve(l) }()
	return l.Addr().String(), nil
}

// peerLog logs each call when it is finished.
type peerLog struct{ logger *slog.Logger }

func (l peerLog) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	begin := time.Now()
	answer, err := handler(ctx, request)
	l.call(ctx, info.FullMethod, begin, err)
	return answer, err
}

func (l peerLog) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	begin := time.Now()
	err := handler(server, stream)
	l.call(stream.Context(), info.FullMethod, begin, err)
	return err
}

func (l peerLog) call(ctx context.Context, method string, begin time.Time, err error) {
	from, _ := grpcpeer.FromContext(ctx)
	span := oteltrace.SpanContextFromContext(ctx)
	l.logger.LogAttrs(ctx, slog.LevelInfo, "call",
		slog.String("method", method), slog.String("code", status.Code(err).String()), slog.Duration("duration", time.Since(begin)),
		slog.String("peer", from.Addr.String()), slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
}

// newPeerGateway returns a gRPC-Gateway handler, which forwards HTTP requests to the gRPC server at addr.
func newPeerGateway(ctx context.Context, addr string) (http.Handler, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(otelgrpc.NewClientHandler()))
	if err != nil {
		return nil, err
	}
	mux := gateway.NewServeMux()
	if err := gatewayv1.RegisterGenerationServiceHandler(ctx, mux, conn); err != nil {
		return nil, err
	}
	return otelhttp.NewHandler(mux, "gateway"), nil
}
