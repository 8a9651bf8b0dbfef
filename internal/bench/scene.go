package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// scene is what one measurement runs in: a catalog, a server in front of it, and a sink of
// traces. All of it is fresh.
type scene struct {
	stub, server, sink *process
}

func (s *scene) stop() {
	for _, p := range []*process{s.server, s.sink, s.stub} {
		if p != nil {
			p.stop()
		}
	}
}

func (s *scene) upstream() string { return "http://" + s.stub.addrs["catalog"] + basePath }

// setting is how the server of a scene is started.
type setting struct {
	bare    bool
	alone   bool          // bare: each watcher polls for itself
	every   time.Duration // between polls; 0: a second
	tracing string        // easel: "always", "1%"; "" is off
	silent  bool          // easel: nothing is traced or measured
	sink    string        // of traces: "dead", "stuck", "slow"; "" takes them
	args    []string      // easel: further flags
}

func (b *bench) scene(ctx context.Context, set setting) (*scene, error) {
	s := &scene{}
	var err error
	if s.stub, err = b.role(ctx, []string{"catalog", "control"}, "stub"); err != nil {
		return nil, err
	}
	if set.tracing != "" {
		if s.sink, err = b.role(ctx, []string{"sink"}, "sink", set.sink); err != nil {
			s.stop()
			return nil, err
		}
		if set.sink == "dead" {
			s.sink.stop()
		}
	}
	if set.bare {
		s.server, err = b.startBare(ctx, s, set)
	} else {
		s.server, err = b.startEasel(ctx, s, set)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// role starts this program in one of its parts.
func (b *bench) role(ctx context.Context, listeners []string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return b.start(ctx, listeners, nil, self, args...)
}

var serverListeners = []string{"grpc", "http", "admin"}

func (b *bench) startBare(ctx context.Context, s *scene, set setting) (*process, error) {
	args := []string{"bare", "-upstream", s.upstream(), "-every", interval(set).String()}
	if set.alone {
		args = append(args, "-alone")
	}
	return b.role(ctx, serverListeners, args...)
}

func interval(set setting) time.Duration {
	if set.every == 0 {
		return time.Second
	}
	return set.every
}

// startEasel starts the facade with all that it has: checks, limits, metrics, a line of log
// for each call. Its limits are set as high as the load needs.
func (b *bench) startEasel(ctx context.Context, s *scene, set setting) (*process, error) {
	args := []string{
		"serve", "--upstream-url", s.upstream(), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--caller-streams", "60000", "--max-streams", "60000", "--poll-min-interval", interval(set).String(),
	}
	env := []string{"OTEL_TRACES_EXPORTER=none"}
	if set.silent {
		env = []string{"OTEL_SDK_DISABLED=true"}
	}
	if set.tracing != "" {
		sampler := "always_on"
		if set.tracing == "1%" {
			sampler = "parentbased_traceidratio"
		}
		env = []string{
			"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_METRICS_EXPORTER=otlp",
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + s.sink.addrs["sink"], "OTEL_TRACES_SAMPLER=" + sampler, "OTEL_TRACES_SAMPLER_ARG=0.01",
		}
	}
	p, err := b.start(ctx, serverListeners, env, b.easel, append(args, set.args...)...)
	if err == nil && b.profile != "" {
		go b.take(ctx, p)
	}
	return p, err
}

// take writes a CPU profile of what a server does after it has warmed up.
func (b *bench) take(ctx context.Context, p *process) {
	time.Sleep(b.lasting(warmUp))
	if profile, err := get(ctx, "http://"+p.addrs["admin"]+"/debug/pprof/profile?seconds=2"); err == nil {
		_ = os.WriteFile(b.profile, profile, 0o600) // who asked for it will miss it
	}
}

// control tells the stub what to answer from now on.
func (s *scene) control(ctx context.Context, path string, args ...any) error {
	url := "http://" + s.stub.addrs["control"] + fmt.Sprintf(path, args...)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("POST %s: %s: %s", path, response.Status, strings.TrimSpace(string(text)))
	}
	return err
}

func (s *scene) ask(ctx context.Context, path string, into any) error {
	body, err := get(ctx, "http://"+s.stub.addrs["control"]+path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (s *scene) counts(ctx context.Context) (c counts, err error) {
	err = s.ask(ctx, "/counts", &c)
	return c, err
}

// showed gives when the stub first sent the newest state of each render.
func (s *scene) showed(ctx context.Context) (times map[string]showing, err error) {
	err = s.ask(ctx, "/showed", &times)
	return times, err
}
