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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestSIGTERMEndsFiveThousandWatchesWithinTenSeconds(t *testing.T) {
	const watches, each = 5000, 1000 // 5,000 watches in total, 1,000 on each connection
	s := proctest.NewStack(t, "--speed", "0.0001").With(proctest.Settings{"EASEL_CALLER_STREAMS": "5001"}).Serve()
	ctx := proctest.Bearing(t.Context(), s.Sandbox.Key)
	var clients []easelv1.GenerationServiceClient
	for range watches / each {
		clients = append(clients, easelv1.NewGenerationServiceClient(proctest.Dial(t, s.Server.GRPC)))
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
			err := readUntilClosing(ctx, clients[n/each], created.GetGeneration().GetGenerationId(), stand.Done)
			if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "shutting down") {
				told.Add(1)
			} else {
				t.Errorf("a watch ended with %v", err)
			}
		})
	}
	stand.Wait()
	began := time.Now()
	code := s.Server.Stop()
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

// readUntilClosing reads a watch until it ends, and returns the error with which it ended. It returns a different error
// if the server did not announce the end, or ended the watch with OK. It calls onStart once: when the first message
// arrives or, if no message arrives, when the watch ends.
func readUntilClosing(ctx context.Context, client easelv1.GenerationServiceClient, id string, onStart func()) error {
	stream, err := client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{GenerationId: id})
	first := sync.OnceFunc(onStart)
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
