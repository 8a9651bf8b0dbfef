package server_test

import (
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAWatchAfterTheEndSendsWhatItsCallerLacks(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		id := finished(t, c, "64x40")
		updates := watched(t, c, &easelv1.WatchGenerationRequest{GenerationId: id})
		if len(updates) != 1 || updates[0].GetGeneration().GetFile() == nil || !updates[0].GetInitial() {
			t.Fatalf("updates %v", updates)
		}
		for _, content := range []bool{false, true} {
			beats, bytes := 0, 0
			req := &easelv1.WatchGenerationRequest{GenerationId: id, KnownEtag: updates[0].GetGeneration().GetEtag(), IncludeContent: content}
			err := c.watch(t.Context(), req, func(m *easelv1.WatchGenerationResponse) {
				if m.GetUpdate() != nil {
					t.Errorf("the known state was sent again: %v", m)
				}
				if m.GetHeartbeat() != nil {
					beats++
				}
				bytes += len(m.GetContent().GetData())
			})
			if err != nil || beats != 1 || (bytes > 0) != content {
				t.Errorf("%d heartbeats, %d bytes and %v; want one, bytes: %v, and OK", beats, bytes, err, content)
			}
		}
	})
}

func TestADrainEndsAWaitAndAWatchAndSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		waited, watched := make(chan error, 1), make(chan error, 1)
		go func() {
			waited <- c.call(t.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: g.GetGenerationId()}, &easelv1.WaitGenerationResponse{})
		}()
		var closing easelv1.StreamClosingReason
		go func() {
			watched <- c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()}, func(m *easelv1.WatchGenerationResponse) {
				closing = m.GetClosing().GetReason()
			})
		}()
		for s.hub.Stats().Watches < 2 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		s.stop()
		of := wantStatus(t, <-waited, codes.Unavailable, "SERVER_DRAINING", 503)
		if st := wantStatus(t, <-watched, codes.Unavailable, "SERVER_DRAINING", 200); retryDelay(of) == 0 || retryDelay(st) == 0 {
			t.Errorf("the reconnect delay is missing: %v, %v", of, st)
		}
		if closing != easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING {
			t.Errorf("the watch was closed for %v", closing)
		}
	}, func(o *options) { o.sandbox.Speed = 0.1 })
}
