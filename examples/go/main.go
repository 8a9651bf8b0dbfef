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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const heartbeat = 5 * time.Second

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
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := easelv1.NewGenerationServiceClient(conn)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv("EASEL_API_KEY"))

	inputs, err := structpb.NewStruct(map[string]any{"prompt": prompt})
	if err != nil {
		return err
	}
	priced, err := client.QuoteGeneration(ctx, &easelv1.QuoteGenerationRequest{ModelId: model, Inputs: inputs})
	if err != nil {
		return err
	}
	fmt.Println("price:", priced.Quote.PriceCents, "cents")
	key, err := storedKey(file + ".key") // on disk before the order leaves: whatever happens then, it is one order
	if err != nil {
		return err
	}
	created, err := client.CreateGeneration(ctx, &easelv1.CreateGenerationRequest{
		ModelId: model, Inputs: inputs, IdempotencyKey: key, MaxCostCents: &priced.Quote.PriceCents,
	})
	if err != nil {
		return err
	}
	render := created.Generation
	for fmt.Println("ordered:", render.GenerationId); !render.Terminal; time.Sleep(time.Second / 2) {
		if err := watch(ctx, client, &render); ctx.Err() != nil {
			return err
		} else if !errors.Is(err, io.EOF) { // any error: only at the goal does a stream end with OK
			fmt.Println("again:", status.Convert(err).Message())
		}
	}
	if render.State != easelv1.State_STATE_SUCCEEDED {
		return fmt.Errorf("%s: %s", render.State, render.FailureMessage)
	}
	if err := download(ctx, client, render.GenerationId, file); err != nil {
		return err
	}
	return os.Remove(file + ".key") // the next run is a new order
}

func storedKey(path string) (string, error) {
	if key, err := os.ReadFile(path); err == nil && len(key) > 0 {
		return string(key), nil
	}
	key := rand.Text()
	return key, os.WriteFile(path, []byte(key), 0o600)
}

// watch keeps render the newest over one stream, until it ends or was silent for three heartbeats.
func watch(ctx context.Context, client easelv1.GenerationServiceClient, render **easelv1.Generation) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(3*heartbeat, cancel)
	stream, err := client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{
		GenerationId: (*render).GenerationId, KnownEtag: (*render).Etag, HeartbeatInterval: durationpb.New(heartbeat),
	})
	for err == nil {
		var message *easelv1.WatchGenerationResponse
		if message, err = stream.Recv(); err == nil {
			silence.Reset(3 * heartbeat)
			if update := message.GetUpdate(); update != nil {
				*render = update.Generation
			}
			fmt.Println("watching:", (*render).State, message.GetHeartbeat().GetTypicalRemaining().AsDuration())
		}
	}
	return err
}

// download fills the file over as many streams as it takes, and gives up when one brings nothing.
func download(ctx context.Context, client easelv1.GenerationServiceClient, id, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	etag, size := "", int64(0)
	for done := false; !done; {
		from := size
		stream, err := client.DownloadGeneration(ctx, &easelv1.DownloadGenerationRequest{GenerationId: id, ReadOffset: size, Etag: etag})
		for err == nil {
			var message *easelv1.DownloadGenerationResponse
			if message, err = stream.Recv(); err == nil {
				chunk := message.Chunk
				if etag = cmp.Or(chunk.Info.GetEtag(), etag); crc32.Checksum(chunk.Data, crc32.MakeTable(crc32.Castagnoli)) != chunk.Crc32C {
					return errors.New("bytes arrived damaged")
				}
				_, err = file.WriteAt(chunk.Data, chunk.Offset)
				size = chunk.Offset + int64(len(chunk.Data))
			}
		}
		if done = errors.Is(err, io.EOF); !done && size == from {
			return err
		}
		fmt.Println("downloaded:", size, "bytes")
	}
	return file.Close()
}
