// Command go orders one render from Easel, watches it until it is finished, and saves its file.
// It may be killed at any moment: the same command goes on with the same order.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // or the details of an error can't be read
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go MODEL PROMPT FILE")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", status.Code(err), status.Convert(err).Message())
		for _, detail := range status.Convert(err).Details() {
			fmt.Fprintf(os.Stderr, "  %T: %v\n", detail, detail)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, model, prompt, file string) error {
	conn, err := grpc.NewClient(cmp.Or(os.Getenv("EASEL_ADDR"), "localhost:50051"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // credentials.NewTLS where the server has a certificate
		grpc.WithDefaultServiceConfig(easelv1.ServiceConfig),     // retries unary calls
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := easelv1.NewGenerationServiceClient(conn)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv("EASEL_API_KEY"))
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
	created, err := client.CreateGeneration(ctx, &easelv1.CreateGenerationRequest{
		ModelId: model, Inputs: inputs, IdempotencyKey: string(key), MaxCostCents: &priced.Quote.PriceCents,
	})
	if err != nil {
		return err
	}
	fmt.Println("ordered:", created.Generation.GenerationId)
	render, err := watch(ctx, client, created.Generation)
	if err == nil && render.State == easelv1.State_STATE_SUCCEEDED {
		err = download(ctx, client, render.GenerationId, file)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(file + ".key"); err != nil || render.State == easelv1.State_STATE_SUCCEEDED { // the next run is a new order
		return err
	}
	return fmt.Errorf("%s: %s", render.State, render.FailureMessage)
}

// watch follows a render to its end, over as many streams as it takes.
func watch(ctx context.Context, client easelv1.GenerationServiceClient, render *easelv1.Generation) (*easelv1.Generation, error) {
	const heartbeat = 3 * time.Second
	for ; ; time.Sleep(time.Second / 2) {
		attempt, cancel := context.WithCancel(ctx)
		silence := time.AfterFunc(3*heartbeat, cancel)
		stream, err := client.WatchGeneration(attempt, &easelv1.WatchGenerationRequest{
			GenerationId: render.GenerationId, KnownEtag: render.Etag, HeartbeatInterval: durationpb.New(heartbeat),
		})
		for err == nil {
			var message *easelv1.WatchGenerationResponse
			if message, err = stream.Recv(); err == nil {
				silence.Reset(3 * heartbeat)
				render = cmp.Or(message.GetUpdate().GetGeneration(), render)
				fmt.Println("watching:", render.State, message.GetHeartbeat().GetTypicalRemaining().AsDuration())
			}
		}
		cancel()
		if errors.Is(err, io.EOF) { // only at the goal; after any error, again
			return render, nil
		} else if ctx.Err() != nil {
			return nil, err
		}
		fmt.Println("again:", status.Convert(err).Message())
	}
}

// download fetches the bytes over as many streams as it takes, and names the file when all are there.
func download(ctx context.Context, client easelv1.GenerationServiceClient, id, path string) error {
	file, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // where it fails; a whole file is closed below
	request := &easelv1.DownloadGenerationRequest{GenerationId: id}
	for ; ; time.Sleep(time.Second / 2) {
		stream, err := client.DownloadGeneration(ctx, request)
		for err == nil {
			var message *easelv1.DownloadGenerationResponse
			if message, err = stream.Recv(); err == nil {
				chunk := message.Chunk
				if chunk.Offset != request.ReadOffset || crc32.Checksum(chunk.Data, crc32.MakeTable(crc32.Castagnoli)) != chunk.Crc32C {
					return errors.New("bytes arrived damaged")
				} else if _, err := file.Write(chunk.Data); err != nil {
					return err
				}
				request.ReadOffset += int64(len(chunk.Data))
				fmt.Println("downloaded:", request.ReadOffset, "bytes")
				request.Etag = cmp.Or(chunk.Info.GetEtag(), request.Etag) // the rest must be of the same bytes
			}
		}
		if errors.Is(err, io.EOF) {
			if err = file.Close(); err == nil {
				err = os.Rename(path+".part", path)
			}
			return err
		} else if code := status.Code(err); code != codes.Unavailable && code != codes.Internal && code != codes.ResourceExhausted {
			return err
		}
		fmt.Println("again:", status.Convert(err).Message())
	}
}
