package main

import (
	"context"
	"net"
	"net/http"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// scene is the environment of one measurement: a new catalog, a facade in front of it, a sink for traces and a client.
type scene struct {
	*bench
	catalog *stub
	server  *process
	client  easelv1.GenerationServiceClient
	undo    []func() // functions that stop the scene's parts, in the order in which the parts were started; stop calls them in reverse order
}

// startFacade starts the catalog, the facade f and a receiver for its telemetry, and then connects to the facade. flags
// contains additional flags for the facade.
func (s *scene) startFacade(ctx context.Context, f facade, flags []string) error {
	web := &http.Server{Handler: s.catalog.handler()}
	catalog, err := s.serve(web.Serve, func() { _ = web.Close() })
	if err != nil {
		return err
	}
	exports := newSink()
	sink, err := s.serve(exports.Serve, exports.Stop)
	if err != nil {
		return err
	}
	program, args, err := s.facadeCommand(f, "http://"+catalog+basePath) //nolint:contextcheck // command takes no ctx, because it may start a database server that runs until the end of the scene
	if err != nil {
		return err
	}
	// All traces and metrics are exported.
	telemetry := []string{
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + sink, "OTEL_TRACES_SAMPLER=always_on",
	}
	if s.server, err = s.startProcess(ctx, telemetry, program, append(args, flags...)...); err != nil {
		return err
	}
	s.undo = append(s.undo, s.server.stop)
	conn, err := grpc.NewClient(s.server.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _ = conn.Close() })
	s.client = easelv1.NewGenerationServiceClient(conn)
	return nil
}

// serve runs a server on a free local port until the end of the scene, and returns the server's address.
func (s *scene) serve(run func(net.Listener) error, stop func()) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = run(l) }()
	s.undo = append(s.undo, stop)
	return l.Addr().String(), nil
}

// facadeCommand returns the program and the arguments that start a facade.
func (s *scene) facadeCommand(f facade, upstream string) (program string, args []string, err error) {
	if f == thePeer {
		return s.peer, []string{peerRole, "-upstream", upstream}, nil
	}
	ledgerSettings, err := s.ledgerFlags(f)
	return s.easel, append([]string{
		"serve", "--upstream-url", upstream, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--caller-streams", "60000", "--max-streams", "60000",
	}, ledgerSettings...), err
}

func (s *scene) stop() {
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
}

// measureGrowth calls fn. It returns the difference between the values that readValue returns before and after this call.
func measureGrowth(ctx context.Context, readValue func(context.Context) (float64, error), fn func() error) (float64, error) {
	before, err := readValue(ctx)
	if err != nil {
		return 0, err
	}
	if err := fn(); err != nil {
		return 0, err
	}
	after, err := readValue(ctx)
	return after - before, err
}
