// Command play makes one call and prints the result.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
)

func main() {
	ctx := context.Background()
	if limit, err := time.ParseDuration(os.Getenv("PLAY_TIMEOUT") + "s"); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	client, err := easel.New(context.Background(), easel.WithLogger(slog.Default()),
		easel.WithRetryHook(func(r easel.Retry) { fmt.Println("again", name(r.Err)) }),
		easel.WithHeartbeatHook(func(easel.Heartbeat) { fmt.Println("heartbeat") }))
	if err != nil {
		log.Fatal(err) //nolint:gocritic // the process exits anyway
	}
	if err := play(ctx, client, os.Args[1], os.Args[2:]); err != nil {
		fmt.Println(failed(err))
	} else if !slices.Contains([]string{"order", "run", "watch"}, os.Args[1]) {
		fmt.Println("ended")
	}
}

func play(ctx context.Context, client *easel.Client, call string, names []string) error {
	switch call {
	case "order":
		for _, key := range names {
			if placed, err := client.Order(ctx, order(key)); err != nil {
				fmt.Println(failed(err))
			} else {
				fmt.Println("placed", placed.GenerationID, placed.Key, placed.Replayed)
			}
		}
		return nil
	case "run":
		_, err := client.Run(ctx, order(names[0]))
		return err
	case "watch":
		for _, id := range names {
			if err := show(client.Watch(ctx, id), render); err != nil {
				fmt.Println(failed(err))
			} else {
				fmt.Println("ended")
			}
		}
		return nil
	case "many":
		return show(client.WatchMany(ctx, names), render)
	case "all":
		return show(client.WatchMany(ctx, nil), render)
	case "read account":
		account, err := client.Account(ctx, limits()...)
		if err == nil {
			fmt.Println("balance", *account.BalanceCents)
		}
		return err
	case "models":
		return show(client.Models(ctx), func(m *easel.Model) { fmt.Println("model", m.ModelID, m.OutputKind, len(m.InputFields)) })
	case "model":
		model, err := client.Model(ctx, names[0])
		if err != nil {
			return err
		}
		for _, f := range model.InputFields {
			fmt.Println("input", f.Name, f.Type, *f.Required, f.Default, len(f.Allowed), *f.Maximum)
		}
		return nil
	case "quote":
		quote, err := client.Quote(ctx, order(""))
		if err == nil {
			fmt.Println("quote", quote.PriceCents, *quote.BalanceCents, *quote.Affordable)
		}
		return err
	case "get":
		return one(client.Get(ctx, names[0]))
	case "wait":
		return one(client.Wait(ctx, names[0]))
	case "delete":
		return client.Delete(ctx, names[0])
	case "list":
		return show(client.List(ctx, easel.Filter{Labels: map[string]string{"campaign": "winter"}}), render)
	case "usage":
		rows, err := client.Usage(ctx, easel.UsageQuery{By: []easel.Dimension{easel.ByModel}})
		for _, row := range rows {
			fmt.Println("usage", row.ModelID, row.OrderCount, row.CostCents)
		}
		return err
	case "download":
		if err := client.DownloadFile(ctx, names[0], names[1]); err != nil {
			return err
		}
		data, err := os.ReadFile(names[1])
		fmt.Println("file", string(data))
		return err
	default:
		return errors.New(call)
	}
}

func order(key string) easel.Order {
	return easel.Order{
		Model: "studio/landscape", Inputs: map[string]any{"prompt": "rain"}, Key: strings.TrimPrefix(key, "-"),
		OnKey:        func(string) error { fmt.Println("key made"); return nil },
		MaxCostCents: easel.Cents(50), Labels: map[string]string{"campaign": "winter"},
	}
}

// limits returns the options with the limits of one call.
func limits() (options []easel.CallOption) {
	if n, err := strconv.Atoi(os.Getenv("PLAY_ATTEMPTS")); err == nil {
		options = append(options, easel.Attempts(n))
	}
	return options
}

func one(r *easel.Render, err error) error {
	if err == nil {
		render(r)
	}
	return err
}

func show[S any](states iter.Seq2[*S, error], line func(*S)) error {
	for state, err := range states {
		if err != nil {
			return err
		}
		line(state)
	}
	return nil
}

func render(r *easel.Render) { fmt.Println("render", r.GenerationID, r.State, r.Etag) }

func name(err error) string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", err), "*easel."), "Error")
}

func failed(err error) string {
	e := &easel.Error{}
	if errors.Is(err, easel.ErrNotRegular) {
		return "failed " + easel.ErrNotRegular.Error()
	}
	errors.As(err, &e)
	after, remaining, reset, last := "-", "-", "-", ""
	if e.RetryAfter > 0 {
		after = fmt.Sprint(e.RetryAfter.Seconds())
	}
	if e.RemainingCents != nil {
		remaining = fmt.Sprint(*e.RemainingCents)
	}
	if !e.ResetTime.IsZero() {
		reset = e.ResetTime.Format(time.RFC3339)
	}
	var fields []string
	for _, violation := range e.FieldViolations {
		fields = append(fields, violation.Field)
	}
	if e.LabelName != "" {
		last = "\nlabel " + e.LabelName + " " + e.LabelValue
	}
	if e.RequestID != "" {
		last += "\nrequest " + e.RequestID
	}
	if out := (*easel.TimeoutError)(nil); errors.As(err, &out) && out.Heartbeat != nil {
		last += "\nlast " + out.Heartbeat.LastError
	}
	return fmt.Sprintf("failed %s %s key=%s outcome=%s retryable=%v after=%s remaining=%s reset=%s fields=%s%s", name(err), cmp.Or(e.Reason, "-"),
		cmp.Or(e.IdempotencyKey, "-"), cmp.Or(e.OrderOutcome, "-"), easel.IsRetryable(err), after, remaining, reset, cmp.Or(strings.Join(fields, ","), "-"), last)
}
