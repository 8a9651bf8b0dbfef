package server_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server"
)

// sharing checks that two callers have a quota each, of one stream.
func sharing(t *testing.T, one, other caller, id string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stands, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		_ = one.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: id}, func(*easelv1.WatchGenerationResponse) { stands <- struct{}{} })
	}()
	select {
	case <-stands:
	case <-ended:
		t.Fatal("the watch has ended")
	}
	ask := func(c caller) error {
		return c.call(t.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: "unknown"}, &easelv1.WaitGenerationResponse{})
	}
	st := wantStatus(t, ask(one), codes.ResourceExhausted, "STREAM_QUOTA_EXCEEDED", 429)
	if retryDelay(st) == 0 {
		t.Errorf("the refusal says nothing of when to come back: %v", st)
	}
	wantStatus(t, ask(other), codes.NotFound, "GENERATION_NOT_FOUND", 404)
	cancel()
	<-ended
	eventually(t, "the first has room again", func() bool { return statusOf(t, ask(one)).Code() == codes.NotFound })
}

func TestTheGenerationsOfACallersWatchesAreBounded(t *testing.T) { // A4
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ids := make([]string, idsLimit)
		for n := range server.CallerWatched / idsLimit {
			for i := range ids {
				ids[i] = fmt.Sprintf("made-up-%d-%d", n, i)
			}
			if _, err := easelv1.NewGenerationServiceClient(s.grpc).WatchGenerations(grpcCaller{s, s.key}.keyed(ctx), &easelv1.WatchGenerationsRequest{GenerationIds: ids}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all of them stand", func() bool { return s.hub.Stats().Watches == server.CallerWatched/idsLimit })
		more := func() error {
			return c.watchMany(t.Context(), &easelv1.WatchGenerationsRequest{GenerationIds: []string{"one-more"}}, oneMessage)
		}
		wantStatus(t, more(), codes.ResourceExhausted, "STREAM_QUOTA_EXCEEDED", 429)
		cancel()
		eventually(t, "there is room again", func() bool { return more() == nil })
	}, func(o *options) { o.hub.Rate = 2 }) // no watch ends meanwhile
}

func TestEachCallerOfAHeldKeyHasAQuotaOfItsOwn(t *testing.T) { // L5
	s := heldStack(t, []string{"shop", "blog"}, func(o *options) { o.sandbox.Speed, o.server.Limits.CallerStreams = 0.1, 1 })
	shops := create(t, grpcCaller{s, "shop"}, order(t, picture, "k", "a lake"))
	blogs := create(t, grpcCaller{s, "blog"}, order(t, picture, "k", "a lake"))
	sharing(t, grpcCaller{s, "shop"}, grpcCaller{s, "blog"}, shops.GetGenerationId())
	sharing(t, restCaller{s, "blog"}, grpcCaller{s, "shop"}, blogs.GetGenerationId())
}
