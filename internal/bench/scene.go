package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// scene is what one measurement runs in: a catalog, a facade in front of it, a sink of traces and
// a client. All of it is fresh.
type scene struct {
	stub, sink, server *process
	conn               *grpc.ClientConn
	client             easelv1.GenerationServiceClient
}

// setting is how a scene begins.
type setting struct {
	catalog []string      // what the stub is told
	every   time.Duration // the shortest time between two polls of a generation; 0: the default
	easel   []string      // further flags of easel
}

// start starts all parts of a scene.
func (b *bench) start(ctx context.Context, f facade, set setting) (*scene, error) {
	s := &scene{}
	err := s.startProcesses(ctx, b, f, set)
	if err == nil {
		s.conn, err = grpc.NewClient(s.server.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
		s.client = easelv1.NewGenerationServiceClient(s.conn)
	}
	for _, path := range set.catalog {
		if err == nil {
			err = s.control(ctx, path)
		}
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *scene) startProcesses(ctx context.Context, b *bench, f facade, set setting) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if s.stub, err = b.startProcess(ctx, 2, nil, self, "stub"); err != nil {
		return err
	}
	if s.sink, err = b.startProcess(ctx, 1, nil, self, "sink"); err != nil {
		return err
	}
	if set.every == 0 {
		set.every = f.defaultInterval()
	}
	upstream := "http://" + s.stub.addrs["catalog"] + basePath
	program, args := self, []string{"peer", "-upstream", upstream, "-every", set.every.String()}
	if f == theEasel {
		program, args = b.easel, append([]string{
			"serve", "--upstream-url", upstream, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
			"--caller-streams", "60000", "--max-streams", "60000", "--poll-min-interval", set.every.String(),
		}, set.easel...)
	}
	// Every trace is exported, and the metrics too.
	telemetry := []string{
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + s.sink.addrs["sink"], "OTEL_TRACES_SAMPLER=always_on",
	}
	s.server, err = b.startProcess(ctx, 3, telemetry, program, args...)
	return err
}

func (s *scene) stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	for _, p := range []*process{s.server, s.sink, s.stub} {
		if p != nil {
			p.stop()
		}
	}
}

// control tells the stub what to answer from now on.
func (s *scene) control(ctx context.Context, path string) error {
	_, err := request(ctx, http.MethodPost, "http://"+s.stub.addrs["control"]+path)
	return err
}

// polls is how often the stub was asked for states.
func (s *scene) polls(ctx context.Context) (n float64, err error) {
	err = s.ask(ctx, "/polls", &n)
	return n, err
}

// times gives what the stub knows of the times of each generation.
func (s *scene) times(ctx context.Context) (times map[string]generationTimes, err error) {
	err = s.ask(ctx, "/times", &times)
	return times, err
}

func (s *scene) ask(ctx context.Context, path string, into any) error {
	body, err := request(ctx, http.MethodGet, "http://"+s.stub.addrs["control"]+path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// growth is by how much a reading grows meanwhile.
func growth(ctx context.Context, read func(context.Context) (float64, error), meanwhile func() error) (float64, error) {
	before, err := read(ctx)
	if err != nil {
		return 0, err
	}
	if err := meanwhile(); err != nil {
		return 0, err
	}
	after, err := read(ctx)
	return after - before, err
}
