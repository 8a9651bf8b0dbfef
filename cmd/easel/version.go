package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"google.golang.org/grpc/health/grpc_health_v1"
)

// version and revision are set by the linker of a release, whose bytes then do not depend
// on the directory that it was built in. Without them the toolchain's stamp counts.
var version, revision string

// build says which program this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	switch {
	case version != "":
		b.Version = version
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	b.Revision = cmp.Or(revision, b.Revision)
	return b
}

type versionCmd struct {
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json."`
}

// Run prints the version.
func (c *versionCmd) Run(p *program) error {
	b := thisBuild()
	if c.Output == "json" {
		writeJSONLine(p.stdout, b)
		return nil
	}
	from := ""
	if b.Revision != "" {
		from = ", revision " + b.Revision[:min(12, len(b.Revision))]
	}
	_, err := fmt.Fprintf(p.stdout, "easel %s (%s, %s%s)\n", b.Version, b.Go, b.Platform, from)
	return err
}

type healthCmd struct {
	callFlags
	Service string `placeholder:"NAME" help:"Ask for one service, such as easel.v1.GenerationService, instead of the whole server."`
}

// Run asks a server whether it serves.
func (c *healthCmd) Run(ctx context.Context, p *program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		health := grpc_health_v1.NewHealthClient(s.conn)
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: c.Service})
		if err != nil {
			return err
		}
		s.answer(answer, answer.Status.String(), func() { s.print(answer.Status.String()) })
		if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			return &problem{exit: exitRetry, text: c.Addr + " does not serve"}
		}
		return nil
	})
}
