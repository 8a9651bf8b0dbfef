package server_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestA429ToACallPausesThePollsOfItsKey(t *testing.T) { // U5
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		polls := func() int { return s.sandbox.Requests()["GET /generations/{id}"] }
		told := make(chan *easelv1.WatchGenerationResponse, 100)
		go func() {
			_ = c.watch(ctx, &easelv1.WatchGenerationRequest{
				GenerationId: g.GetGenerationId(), HeartbeatInterval: durationpb.New(time.Second),
			}, func(m *easelv1.WatchGenerationResponse) { told <- m })
		}()
		<-told
		fault := s.sandbox.Inject(sandbox.Fault{Route: "GET /me", Status: 429, Header: map[string]string{"Retry-After": "60"}, Count: 1})
		err := c.call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
		wantStatus(t, err, codes.ResourceExhausted, "UPSTREAM_RATE_LIMITED", 429)
		if fault.Fired() != 1 {
			t.Fatal("the catalog did not refuse")
		}
		beat := heartbeatWith(told, easelv1.UpstreamCondition_UPSTREAM_CONDITION_THROTTLED)
		before := polls()
		if next := beat.GetNextPollTime().AsTime(); time.Until(next) < 50*time.Second {
			t.Errorf("the next poll is in %v, and the catalog asked for a minute", time.Until(next))
		}
		heartbeatWith(told, easelv1.UpstreamCondition_UPSTREAM_CONDITION_THROTTLED)
		if n := polls() - before; n != 0 {
			t.Errorf("%d polls in the pause", n)
		}
	}, func(o *options) { o.sandbox.Speed = 0.1 })
}

// heartbeatWith waits for a heartbeat that tells of a condition.
func heartbeatWith(told <-chan *easelv1.WatchGenerationResponse, want easelv1.UpstreamCondition) *easelv1.Heartbeat {
	for m := range told {
		if h := m.GetHeartbeat(); h.GetUpstreamCondition() == want {
			return h
		}
	}
	return nil
}
