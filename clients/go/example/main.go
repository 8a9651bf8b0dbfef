// Command example orders one render from Easel, watches it until it is finished, and saves its file.
// It may be killed at any moment: the same command goes on with the same order.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
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
	client, err := easel.Dial(cmp.Or(os.Getenv("EASEL_ADDR"), "localhost:50051"), os.Getenv("EASEL_API_KEY"), insecure.NewCredentials())
	if err != nil {
		return err
	}
	defer client.Close()
	inputs := &structpb.Struct{Fields: map[string]*structpb.Value{"prompt": structpb.NewStringValue(prompt)}}
	priced, err := client.QuoteGeneration(ctx, &easelv1.QuoteGenerationRequest{ModelId: model, Inputs: inputs})
	if err != nil {
		return err
	}
	fmt.Println("price:", priced.Quote.PriceCents, "cents")
	key, _ := os.ReadFile(file + ".key")
	if len(key) == 0 { // on disk before the order leaves: whatever happens then, it is one order
		key = []byte(rand.Text())
		if err := os.WriteFile(file+".key", key, 0o600); err != nil {
			return err
		}
	}
	render, err := client.Order(ctx, &easelv1.CreateGenerationRequest{
		ModelId: model, Inputs: inputs, IdempotencyKey: string(key), MaxCostCents: &priced.Quote.PriceCents,
	})
	if err != nil {
		return err
	}
	fmt.Println("ordered:", render.GenerationId)
	for newer, err := range client.Watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: render.GenerationId}) {
		if err != nil {
			return err
		}
		render = newer
		fmt.Println("watching:", render.State)
	}
	if render.State == easelv1.State_STATE_SUCCEEDED {
		if err := client.DownloadFile(ctx, render.GenerationId, file); err != nil {
			return err
		}
	}
	if err := os.Remove(file + ".key"); err != nil || render.State == easelv1.State_STATE_SUCCEEDED { // the next run is a new order
		return err
	}
	return &easel.FailedError{Generation: render}
}
