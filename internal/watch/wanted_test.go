package watch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/limiter"
)

func TestWaitingPollIsNotSentAfterItsWatcherLeaves(t *testing.T) {
	for leaves, want := range map[bool]int{true: 0, false: 1} {
		synctest.Test(t, func(t *testing.T) {
			up := newUpstream(map[string]catalog.State{"a": queued})
			limited := withLimiters(up)
			hub := newHub(t, Config{Upstream: limited})
			release := fillLimiter(t, limited.Limiter(testCred.Tenant))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			b := &bench{t, up, hub, ctx}
			b.watch("a")
			passTime(time.Second)
			if w := limited.Limiter(testCred.Tenant).State().Waiting; len(w) != 1 || up.calls() > 0 {
				t.Fatalf("%v are waiting, want one; %d requests were sent, want none", w, up.calls())
			}
			if leaves {
				leave()
				synctest.Wait()
			}
			release()
			synctest.Wait()
			if up.calls() != want || hub.Stats().Reads != int64(want) {
				t.Errorf("watcher disconnects: %v; %d polls were sent, and %d were counted", leaves, up.calls(), hub.Stats().Reads)
			}
		})
	}
}

// fillLimiter acquires all of a limiter's permits. The returned function releases them.
func fillLimiter(t *testing.T, l *limiter.Limiter) (release func()) {
	var permits []*limiter.Permit
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		p, err := l.Acquire(ctx, limiter.Request{Owner: fmt.Sprint(n)})
		cancel()
		if err != nil {
			break
		}
		permits = append(permits, p)
	}
	return func() {
		for _, p := range permits {
			p.Release(limiter.Result{})
		}
	}
}
