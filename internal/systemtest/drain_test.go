package systemtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestSIGTERMTellsFiveThousandWatchesAndEndsWithinTenSeconds(t *testing.T) { // fault N4
	const watches, each = 5000, 1000 // number of watches, and number of watches on one connection
	catalog := start(t, nil, func(stdout, _ string) bool { return strings.Contains(stdout, "sandbox_live_") },
		"sandbox", "--addr", "127.0.0.1:0", "--speed", "0.0001")
	served := proctest.Serve(t, map[string]string{
		"EASEL_UPSTREAM_URL": proctest.Find(t, `(http://\S+/catalog)`, catalog.Stdout.String()), "EASEL_CALLER_STREAMS": "5001",
	})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+proctest.Find(t, `(sandbox_live_\w+)`, catalog.Stdout.String()))
	var clients []easelv1.GenerationServiceClient
	for range watches / each {
		conn, err := grpc.NewClient(served.Address(t, "grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		clients = append(clients, easelv1.NewGenerationServiceClient(conn))
	}
	created, err := clients[0].CreateGeneration(ctx, &easelv1.CreateGenerationRequest{
		ModelId: "studio/haiku", IdempotencyKey: "k", InputsJson: `{"prompt":"rain"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	var stand, all sync.WaitGroup
	var told atomic.Int64
	stand.Add(watches)
	for n := range watches {
		all.Go(func() {
			err := untilClosing(ctx, clients[n/each], created.GetGeneration().GetGenerationId(), stand.Done)
			if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "shutting down") {
				told.Add(1)
			} else {
				t.Errorf("a watch ended with %v", err)
			}
		})
	}
	stand.Wait()
	began := time.Now()
	code := served.Stop()
	all.Wait()
	if code != exitOK {
		t.Errorf("the process exited with %d", code)
	}
	took := time.Since(began)
	t.Logf("%d of %d watches were notified; the process exited after %v", told.Load(), watches, took)
	if took > 10*time.Second {
		t.Errorf("the exit took %v", took)
	}
}

// untilClosing reads a watch to its end, which the server must announce. It calls started after the first message.
func untilClosing(ctx context.Context, client easelv1.GenerationServiceClient, id string, started func()) error {
	stream, err := client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{GenerationId: id})
	first := sync.OnceFunc(started)
	defer first()
	closing := false
	for err == nil {
		var m *easelv1.WatchGenerationResponse
		if m, err = stream.Recv(); err == nil {
			first()
			closing = m.GetClosing() != nil
		}
	}
	if !closing || errors.Is(err, io.EOF) {
		return errors.New("the end was not announced: " + err.Error())
	}
	return err
}
