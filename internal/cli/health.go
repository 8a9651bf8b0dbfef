package cli

import (
	"context"
	"fmt"

	"google.golang.org/grpc/health/grpc_health_v1"
)

// Build says which program this is.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

type versionCmd struct {
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json."`
}

// Run prints the version.
func (c *versionCmd) Run(p *Program) error {
	b := p.Build
	if c.Output == "json" {
		writeJSONLine(p.Stdout, b)
		return nil
	}
	from := ""
	if b.Revision != "" {
		from = ", revision " + b.Revision[:min(12, len(b.Revision))]
	}
	_, err := fmt.Fprintf(p.Stdout, "easel %s (%s, %s%s)\n", b.Version, b.Go, b.Platform, from)
	return err
}

// Health is the command that asks whether a server serves.
type Health struct {
	callFlags
	Service string `placeholder:"NAME" help:"Ask for one service, such as easel.v1.GenerationService, instead of the whole server."`
}

// Run asks a server whether it serves.
func (c *Health) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		health := grpc_health_v1.NewHealthClient(s.conn)
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: c.Service})
		if err != nil {
			return err
		}
		s.answer(answer, answer.Status.String(), func() { s.Print(answer.Status.String()) })
		if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			return &Problem{Exit: ExitRetry, Text: c.Addr + " does not serve"}
		}
		return nil
	})
}
