package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/terminal"
)

type eraseCmd struct {
	adminFlags
	Owner      string `placeholder:"OWNER" help:"Erase only orders of this owner: a team, or a caller without a team."`
	Label      string `placeholder:"NAME=VALUE" help:"Erase only orders with this label."`
	Generation string `placeholder:"GENERATION" help:"Erase only the order that produced this render."`
}

// Run erases orders in several requests, because each request erases a limited number of orders.
func (c *eraseCmd) Run(ctx context.Context, p *cli.Program) error {
	name, value, ok := strings.Cut(c.Label, "=")
	switch {
	case c.Owner+c.Label+c.Generation == "":
		return toUsageProblem(errors.New("no orders selected; set --owner, --label or --generation"))
	case c.Label != "" && (!ok || name == ""):
		return toUsageProblem(errors.New("--label must be NAME=VALUE"))
	}
	asked := admin.Erasure{Owner: c.Owner, LabelName: name, LabelValue: value, Generation: c.Generation}
	console, erased, left := p.Console(), int64(0), map[string]string{}
	for more := true; more; more = asked.After != nil {
		var step admin.Erased
		if err := c.postJSON(ctx, p, "/orders:erase", asked, &step); err != nil {
			return err
		}
		asked.After, erased = step.Next, erased+step.Erased
		maps.Copy(left, step.Left)
		console.ShowLive(fmt.Sprintf("%d orders erased", erased))
	}
	console.ShowLive("")
	console.Print(fmt.Sprintf("%d orders are erased", erased))
	for _, order := range slices.Sorted(maps.Keys(left)) {
		console.PrintText(terminal.Sanitize(order + " was not erased: " + left[order] + "\n"))
	}
	if len(left) > 0 {
		return &cli.Problem{Exit: cli.ExitFailure, Text: fmt.Sprintf("%d items were not erased", len(left)), Cure: "Run the same command again."}
	}
	return console.Err()
}
