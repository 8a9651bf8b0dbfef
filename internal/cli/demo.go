package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// Demo is the client's side of the demonstration: the commands that a person would type, from the quote to the file.
type Demo struct {
	Addr   string // of the facade
	Key    string // the API key
	Prompt string // what to paint
	Out    string // where the picture goes
}

// Run types the commands against the real port, and does the sum at the end.
func (d Demo) Run(ctx context.Context, p *Program) error {
	client, err := easel.New(ctx, easel.WithAddress(d.Addr), easel.WithAPIKey(d.Key))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // nothing runs on it any more
	started, out := time.Now(), p.Console()
	out.Print("Easel demo: a catalog with play money, the facade in front of it, and one client.")
	out.Print("It all runs on this machine; the client calls " + d.Addr + ".")
	before, err := balance(ctx, client)
	if err != nil {
		return err
	}
	picture := []string{"studio/landscape", "prompt=" + d.Prompt, "size=1600x1000", "steps=30"}
	order := append([]string{"generate", "--idempotency-key", "demo-1", "--max-cost", "0.50"}, picture...)
	for _, step := range []struct {
		about string
		words []string
	}{
		{"What is there?", []string{"models"}},
		{"What would a picture cost?", append([]string{"quote"}, picture...)},
		{"Order it, watch it, and fetch it:", append(order, "--out", d.Out, "--force")},
		{"The same idempotency key again: one render, one charge.", order},
		{"A text comes with the last state:", []string{"generate", "studio/haiku", "prompt=" + d.Prompt, "--watch"}},
	} {
		out.PrintText("\n" + out.OutStyle.Paint(terminal.Bold, step.about) + "\n$ " + terminal.OneLine(shellLine(step.words)))
		if exit := d.typed(ctx, p, step.words); exit != ExitOK {
			return &Problem{Exit: exit, Text: "the demo ends here"}
		}
	}
	sum, err := d.sum(ctx, client, before)
	if err != nil {
		return err
	}
	out.PrintText("\n" + sum + "\n\nEverything is as it should be, after " + formatDuration(time.Since(started)) + ".")
	out.Print("Next: " + p.Self() + " dev keeps it running and says how to call it.")
	return out.Err()
}

// typed runs a command against the facade. What it says beside its result is a part of the show.
func (d Demo) typed(ctx context.Context, p *Program, words []string) int {
	return Run(ctx, words, &Program{
		Stdin: strings.NewReader(""), Stdout: p.Stdout, Stderr: p.Stdout, Grammar: p.Grammar, Build: p.Build,
		Lookup: func(name string) (string, bool) {
			if ours, ok := map[string]string{"EASEL_ADDR": d.Addr, apiKeyVariable: d.Key}[name]; ok {
				return ours, true
			}
			value, ok := p.Lookup(name)
			return value, ok && !strings.HasPrefix(name, settingPrefix)
		},
	})
}

// sum compares what was there, less what was charged, with what is left.
func (d Demo) sum(ctx context.Context, client *easel.Client, before int64) (string, error) {
	rows, err := client.Usage(ctx, easel.UsageQuery{})
	if err != nil {
		return "", err
	}
	after, err := balance(ctx, client)
	if err != nil {
		return "", err
	}
	sum := sumOf(rows)
	orders, cost := sum[0], sum[3]
	text := fmt.Sprintf("%s - %s for %d orders = %s", Money(before, ""), Money(cost, ""), orders, Money(after, ""))
	if orders != 2 || before-cost != after {
		return "", &Problem{Exit: ExitFailure, Text: "the demo found a mismatch: " + text}
	}
	return text, nil
}

func balance(ctx context.Context, client *easel.Client) (int64, error) {
	answer, err := client.Accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
	return answer.GetAccount().GetBalanceCents(), err
}
