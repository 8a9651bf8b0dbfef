package watch

import (
	"slices"
	"testing"
	"time"
)

func TestSnapshotListsLongestWaitingGenerationsAndCountsAll(t *testing.T) {
	states, ids := generations(150)
	inBubble(t, states, func(b *bench) {
		b.watch(ids...)
		b.watch(ids[0])
		passTime(time.Minute)
		s := b.hub.Snapshot()
		if len(s.Generations) != 100 || s.Stats.Active != 150 || len(s.Credentials) != 1 {
			t.Fatalf("the snapshot has %d of %d generations and %d keys, want 100 of 150 and 1", len(s.Generations), s.Stats.Active, len(s.Credentials))
		}
		if !slices.IsSortedFunc(s.Generations, func(a, b PolledGeneration) int { return a.Answered.Compare(b.Answered) }) {
			t.Error("the generation that has waited longest is not first")
		}
		if waited := s.Time.Sub(s.Generations[0].Answered); waited != s.Stats.Stalest {
			t.Errorf("the first generation has waited %v, but the longest wait is %v", waited, s.Stats.Stalest)
		}
		k := s.Credentials[0]
		if k.Condition != ConditionHealthy || k.Active != 150 || k.Watches != 2 || k.Rate != k.Limit || k.Tenant == "" {
			t.Errorf("the key is %+v, want a healthy one with 150 generations and 2 watches", k)
		}
		for _, r := range s.Generations {
			if r.Began.IsZero() || r.NextPoll.Before(s.Time.Add(-time.Second)) || r.Watches < 1 || r.State == "" || r.Tenant != k.Tenant {
				t.Errorf("a generation in the snapshot is incomplete or overdue: %+v", r)
			}
		}
	})
}

func TestSnapshotReportsOutage(t *testing.T) {
	states, ids := generations(2)
	inBubble(t, states, func(b *bench) {
		b.watch(ids...)
		passTime(20 * time.Second)
		b.up.with(func(u *upstream) { u.fail = unreachable })
		passTime(time.Minute)
		first := b.hub.Snapshot()
		if k := first.Credentials[0]; k.Condition != ConditionUnreachable || k.Failures < 3 || k.LastError == "" || !k.Paused.After(first.Time) {
			t.Errorf("the key is %+v, want an unreachable and paused one", k)
		}
		if r := first.Generations[0]; r.Failures == 0 || r.LastError == "" || first.Time.Sub(r.Answered) < 50*time.Second || r.NextPoll.Before(first.Credentials[0].Paused) {
			t.Errorf("the first generation is %+v, want failures and no poll before the pause ends", r)
		}
		if again := b.hub.Snapshot(); again.Credentials[0] != first.Credentials[0] || again.Stats != first.Stats {
			t.Error("a second snapshot differs from the first")
		}
	})
}
