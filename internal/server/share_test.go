package server_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server"
)

func TestTheGenerationsOfACallersWatchesAreBounded(t *testing.T) { // fault A4
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
		eventually(t, "all watches are open", func() bool { return s.hub.Stats().Watches == server.CallerWatched/idsLimit })
		more := func() error {
			return c.watchMany(t.Context(), &easelv1.WatchGenerationsRequest{GenerationIds: []string{"one-more"}}, oneMessage)
		}
		wantStatus(t, more(), codes.ResourceExhausted, "STREAM_QUOTA_EXCEEDED", 429)
		cancel()
		eventually(t, "another watch is accepted", func() bool { return more() == nil })
	}, func(o *options) { o.hub.Rate = 2 }) // a low rate of polls, so that no generation finishes during the test
}
