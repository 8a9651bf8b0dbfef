package server

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/gate"
)

func TestALargeRequestDoesNotWaitForItsProcessorWhenItsCallerHasLeft(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{})
	var others sync.WaitGroup
	for range max(1, runtime.GOMAXPROCS(0)/2) { // as many as may work on something large
		others.Go(func() {
			_ = gate.Work(t.Context(), "others", 1<<20, func() error { started <- struct{}{}; <-release; return nil })
		})
		<-started
	}
	data, err := proto.Marshal(&easelv1.CreateGenerationRequest{InputsJson: `{"prompt": "` + strings.Repeat("a", 1<<20) + `"}`})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	in := &received{ctx: ctx, message: &easelv1.CreateGenerationRequest{}}
	others.Go(leave)
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, in); err != nil || !errors.Is(in.err, context.Canceled) {
		t.Errorf("the request of a caller that has left: %v, %v", err, in.err)
	}
	close(release)
	others.Wait()
}
