package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/terminal"
)

type eraseCmd struct {
	adminFlags
	Owner      string `placeholder:"OWNER" help:"Orders of this owner: a team, or a caller without one."`
	Label      string `placeholder:"NAME=VALUE" help:"Orders with this label."`
	Generation string `placeholder:"GENERATION" help:"The order of this render."`
}

// Run erases orders, step by step.
func (c *eraseCmd) Run(ctx context.Context, p *cli.Program) error {
	asked, err := c.erasure()
	if err != nil {
		return err
	}
	console, all := p.Console(), admin.Erased{Left: map[string]string{}}
	for {
		text, err := c.ask(ctx, p, http.MethodPost, "/orders:erase", asked)
		if err != nil {
			return err
		}
		var step admin.Erased
		if err := json.Unmarshal(text, &step); err != nil {
			return err
		}
		all.Erased += step.Erased
		maps.Copy(all.Left, step.Left)
		console.ShowLive(fmt.Sprintf("%d orders erased", all.Erased))
		if asked.After = step.Next; step.Next == nil {
			break
		}
	}
	console.ShowLive("")
	return c.printResult(console, all)
}

// erasure returns the request for the flags.
func (c *eraseCmd) erasure() (asked admin.Erasure, err error) {
	name, value, ok := strings.Cut(c.Label, "=")
	switch {
	case c.Owner+c.Label+c.Generation == "":
		return asked, &cli.Problem{Exit: cli.ExitUsage, Text: "no orders selected: set --owner, --label or --generation"}
	case c.Label != "" && (!ok || name == ""):
		return asked, &cli.Problem{Exit: cli.ExitUsage, Text: "--label must be NAME=VALUE"}
	}
	asked = admin.Erasure{Owner: c.Owner, LabelName: name, LabelValue: value, Generation: c.Generation}
	return asked, nil
}

func (c *eraseCmd) printResult(console *terminal.Console, all admin.Erased) error {
	console.Print(fmt.Sprintf("%d orders are erased", all.Erased))
	for _, order := range slices.Sorted(maps.Keys(all.Left)) {
		console.PrintText(terminal.Sanitize(order + " is left: " + all.Left[order] + "\n"))
	}
	if len(all.Left) > 0 {
		return &cli.Problem{Exit: cli.ExitFailure, Text: fmt.Sprintf("%d are left", len(all.Left)), Cure: "the same command tries again"}
	}
	return console.Err()
}
