// Command example orders one render from Easel, watches it until it is finished, and saves its file.
// You can kill the program at any time. To continue with the same order, run the same command again.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/status"

	easel "github.com/easel-grpc/easel/clients/go"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: example MODEL PROMPT FILE")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		for _, detail := range status.Convert(err).Details() {
			fmt.Fprintf(os.Stderr, "  %T: %v\n", detail, detail)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, model, prompt, file string) error {
	client, err := easel.New(ctx)
	if err != nil {
		return err
	}
	if _, err := client.Account(ctx, easel.Timeout(10*time.Second)); err != nil { // fails if the address, the key or the certificate is wrong
		return err
	}
	order := easel.Order{Model: model, Inputs: map[string]any{"prompt": prompt}}
	quote, err := client.Quote(ctx, order)
	if err != nil {
		return err
	}
	fmt.Println("price:", quote.PriceCents, "cents")
	key, _ := os.ReadFile(file + ".key")
	if len(key) == 0 { // store the key before sending the order, so that a rerun repeats the same order
		key = []byte(rand.Text())
		if err := os.WriteFile(file+".key", key, 0o600); err != nil {
			return err
		}
	}
	order.Key, order.MaxCostCents = string(key), easel.Cents(quote.PriceCents)
	placed, err := client.Order(ctx, order)
	if err != nil {
		return err
	}
	fmt.Println("ordered:", placed.GenerationID)
	render := placed.Render
	for newer, err := range client.Watch(ctx, placed.GenerationID) {
		if err != nil {
			return err
		}
		render = newer
		fmt.Println("watching:", render.State)
	}
	if render.State == easel.StateSucceeded {
		if err := client.DownloadFile(ctx, render.GenerationID, file); err != nil {
			return err
		}
	}
	if err := os.Remove(file + ".key"); err != nil { // this order is finished, so the next run places a new one
		return err
	}
	return render.Failed()
}
