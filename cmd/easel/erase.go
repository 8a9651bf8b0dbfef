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
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/terminal"
)

type eraseCmd struct {
	adminFlags
	Owner      string `placeholder:"OWNER" help:"Orders of this owner: a team, or a caller without one."`
	Label      string `placeholder:"NAME=VALUE" help:"Orders with this label."`
	Generation string `placeholder:"GENERATION" help:"The order of this render."`
	Delete     bool   `help:"Delete the renders in the catalog too, of which no money can move any more."`
}

// Run erases step by step.
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
		all.Erased, all.Deleted = all.Erased+step.Erased, all.Deleted+step.Deleted
		maps.Copy(all.Left, step.Left)
		console.ShowLive(fmt.Sprintf("%d orders erased", all.Erased))
		if asked.After = step.Next; step.Next == nil {
			break
		}
	}
	console.ShowLive("")
	return c.tell(console, all)
}

// erasure is what the flags say.
func (c *eraseCmd) erasure() (asked admin.Erasure, err error) {
	name, value, ok := strings.Cut(c.Label, "=")
	switch {
	case c.Owner+c.Label+c.Generation == "":
		return asked, &cli.Problem{Exit: cli.ExitUsage, Text: "nothing says whose orders: --owner, --label or --generation does"}
	case c.Label != "" && (!ok || name == ""):
		return asked, &cli.Problem{Exit: cli.ExitUsage, Text: "--label must be NAME=VALUE"}
	}
	asked = admin.Erasure{Owner: c.Owner, LabelName: name, LabelValue: value, Generation: c.Generation, Delete: c.Delete}
	return asked, nil
}

func (c *eraseCmd) tell(console *terminal.Console, all admin.Erased) error {
	done := fmt.Sprintf("%d orders are erased", all.Erased)
	if c.Delete {
		done += fmt.Sprintf(", and %d renders are deleted", all.Deleted)
	}
	console.Print(done)
	for _, order := range slices.Sorted(maps.Keys(all.Left)) {
		console.PrintText(terminal.Sanitize(order + " is left: " + all.Left[order] + "\n"))
	}
	if len(all.Left) > 0 {
		return &cli.Problem{Exit: cli.ExitFailure, Text: fmt.Sprintf("%d are left", len(all.Left)), Cure: "the same command tries again"}
	}
	return console.Err()
}

// delete deletes the generation of an order in the catalog, and writes that down.
func (p placedOrders) delete(ctx context.Context, order ledger.Order) error {
	cred := *p.held
	cred.Owner = order.Owner
	if err := p.client.Delete(ctx, cred, order.Generation); err != nil && !catalog.IsAbsent(err) {
		return err
	}
	_, err := p.book.Observe(ctx, order.Generation, ledger.Observation{Observation: lifecycle.Observation{Deleted: true}})
	return err
}
