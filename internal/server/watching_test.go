package server_test

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAWatcherThatJoinsAfterTheEndGetsTheResultAtOnce(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		g := create(t, c, order(t, text, "k", "a lake"))
		wait(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		updates := watched(t, c, &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()})
		if len(updates) != 1 || updates[0].GetGeneration().GetText() == nil || !updates[0].GetInitial() {
			t.Errorf("updates %v", updates)
		}
	})
}

func TestAReconnectWithTheKnownEtagCostsNoRepeat(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		g := create(t, c, order(t, text, "k", "a lake"))
		end := wait(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		beats := 0
		err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId(), KnownEtag: end.GetEtag()},
			func(m *easelv1.WatchGenerationResponse) {
				if m.GetUpdate() != nil {
					t.Errorf("the known state was sent again: %v", m)
				}
				if m.GetHeartbeat() != nil {
					beats++
				}
			})
		if err != nil || beats != 1 {
			t.Errorf("%d heartbeats and %v, want one and OK", beats, err)
		}
	})
}

func TestAWatchThatAsksForItCarriesTheBytesOfTheResult(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		var data []byte
		var summary *easelv1.ContentSummary
		err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId(), IncludeContent: true},
			func(m *easelv1.WatchGenerationResponse) {
				data = append(data, m.GetContent().GetData()...)
				if s := m.GetContent().GetSummary(); s != nil {
					summary = s
				}
			})
		if err != nil || len(data) == 0 || fmt.Sprintf("%x", sha256.Sum256(data)) != summary.GetSha256() {
			t.Errorf("%d bytes, summary %v, %v", len(data), summary, err)
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
