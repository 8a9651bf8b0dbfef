package server_test

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

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

func TestADrainTellsEveryWatchAndEndsInTime(t *testing.T) { // N4
	s := newStack(t, func(o *options) { o.sandbox.Speed = 0.1 })
	const watchers = 500
	c := grpcCaller{s, s.key}
	g := create(t, c, order(t, picture, "k", "a lake"))
	var ready, all sync.WaitGroup
	var mu sync.Mutex
	delays := map[time.Duration]bool{}
	ready.Add(watchers)
	for range watchers {
		all.Go(func() {
			var first sync.Once
			closing := false
			err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()}, func(m *easelv1.WatchGenerationResponse) {
				first.Do(ready.Done)
				closing = closing || m.GetClosing().GetReason() == easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING
			})
			st := statusOf(t, err)
			mu.Lock()
			delays[retryDelay(st)] = true
			mu.Unlock()
			if !closing || st.Code() != codes.Unavailable || retryDelay(st) == 0 {
				t.Errorf("closing %v, %v", closing, err)
			}
		})
	}
	ready.Wait()
	// The delays are random, so that not all clients reconnect concurrently.
	defer func() {
		if len(delays) < watchers/2 {
			t.Errorf("%d watchers were given only %d different delays", watchers, len(delays))
		}
	}()
	begun := time.Now()
	s.stop()
	all.Wait()
	if err := <-s.stopped; err != nil {
		t.Error(err)
	}
	s.stopped <- nil
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the drain took %v", took)
	}
}

func TestADrainEndsAWaitAndSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		ended := make(chan error, 1)
		go func() {
			ended <- c.call(t.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: g.GetGenerationId()}, &easelv1.WaitGenerationResponse{})
		}()
		for s.hub.Stats().Watches == 0 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		s.stop()
		if st := wantStatus(t, <-ended, codes.Unavailable, "SERVER_DRAINING", 503); retryDelay(st) == 0 {
			t.Errorf("it does not say when to come back: %v", st)
		}
	}, func(o *options) { o.sandbox.Speed = 0.1 })
}
