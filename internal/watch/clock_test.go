package watch

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// skewed is a catalog whose clock is ahead of the hub's clock by a given duration. The times in its records are from
// the catalog's clock.
type skewed struct {
	*upstream
	by    time.Duration
	began time.Time
}

func (u *skewed) date(g catalog.Generation) catalog.Generation {
	g.CreateTime = u.began.Add(u.by)
	if g.State.Terminal() {
		u.mu.Lock()
		defer u.mu.Unlock()
		g.TerminalTime = u.changes[g.ID].Add(u.by)
	}
	return g
}

func (u *skewed) Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Version, error) {
	read, err := u.upstream.Generation(ctx, cred, id)
	return u.date(read.Generation).Version(), err
}

func (u *skewed) List(ctx context.Context, cred catalog.Credential, since time.Time) (*catalog.List, error) {
	list, err := u.upstream.List(ctx, cred, since)
	if err != nil {
		return nil, err
	}
	for i := range list.Records {
		list.Records[i] = u.date(list.Records[i].Generation).Version()
	}
	return list, nil
}

// pollSkewed watches a generation that fails after a minute and is refunded nine minutes later. The catalog's clock
// is ahead of the hub's clock by the given duration. pollSkewed returns the states that the watch receives and the
// number of requests.
func pollSkewed(t *testing.T, by time.Duration) (states []string, polls int) {
	synctest.Test(t, func(t *testing.T) {
		up := &skewed{newUpstream(map[string]catalog.State{"a": queued}), by, time.Now()}
		hub := newHub(t, Config{Upstream: withLimiters(up)})
		b := &bench{t, up.upstream, hub, t.Context()}
		s := b.watchWith(t.Context(), Request{IDs: []string{"a"}, Goal: Settled})
		passTime(time.Minute)
		up.set("a", failed)
		passTime(9 * time.Minute)
		if ended, err := s.done(); ended {
			t.Errorf("clock ahead by %v: the watch ended with %v before the refund", by, err)
		}
		up.set("a", refunded)
		passTime(time.Minute)
		b.wantEnd(s, nil)
		states, polls = s.states(), up.calls()
	})
	return states, polls
}

func TestClockSkewNeitherEndsWatchEarlyNorAddsPolls(t *testing.T) {
	want, usual := pollSkewed(t, 0)
	if !slices.Equal(want, []string{"queued", "failed", "refunded"}) || usual < 10 {
		t.Fatalf("with equal clocks: delivered %v after %d polls", want, usual)
	}
	for _, by := range []time.Duration{-24 * time.Hour, 24 * time.Hour, -time.Hour, time.Hour} {
		if states, polls := pollSkewed(t, by); !slices.Equal(states, want) || polls > usual || polls < usual/2 {
			t.Errorf("clock ahead by %v: delivered %v after %d polls, want %v after about %d", by, states, polls, want, usual)
		}
	}
}

func TestRefundWindowStartsAtTerminalTimeFromCatalog(t *testing.T) {
	for by, want := range map[time.Duration]time.Duration{
		-24 * time.Hour:   0,
		-5 * time.Minute:  5 * time.Minute,
		0:                 10 * time.Minute,
		24 * time.Hour:    10 * time.Minute,
		-24 * time.Minute: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			up := &skewed{newUpstream(map[string]catalog.State{"a": queued}), by, time.Now().Add(-time.Hour)}
			up.set("a", failed)
			hub := newHub(t, Config{Upstream: withLimiters(up)})
			b := &bench{t, up.upstream, hub, t.Context()}
			s := b.watchWith(t.Context(), Request{IDs: []string{"a"}, Goal: Settled})
			passTime(max(0, want-time.Second))
			if ended, _ := s.done(); ended != (want == 0) {
				t.Errorf("clock ahead by %v: watch ended: %v; it should end after %v", by, ended, want)
			}
			passTime(2 * time.Second)
			b.wantEnd(s, nil)
		})
	}
}
