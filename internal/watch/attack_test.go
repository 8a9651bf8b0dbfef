package watch

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

var errRejected = &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "GET /generations", Status: 401}

func TestAttackByWatchesWithRejectedAPIKeysLeavesNoState(t *testing.T) {
	keys := 100
	if os.Getenv("EASEL_TEST_ATTACKS") == "full" {
		keys = 20_000
	}
	inBubble(t, nil, func(b *bench) {
		b.up.fail, b.up.delay = errRejected, time.Second
		_, ids := generations(20)
		all := make([]*seen, keys)
		for n := range all {
			all[n] = b.watchWith(b.ctx, Request{
				Credential: catalog.Forwarded(catalog.NewSecret(fmt.Sprint("made-up-", n))), IDs: ids[:1+n%len(ids)],
			})
		}
		passTime(500 * time.Millisecond)
		if s := b.hub.Stats(); s.Pollers != keys || s.Watches != keys {
			t.Fatalf("%d pollers and %d watches, want %d of each", s.Pollers, s.Watches, keys)
		}
		passTime(2 * time.Second)
		for _, s := range all {
			b.wantEnd(s, errRejected)
		}
		if s := b.hub.Stats(); s.Pollers != 0 || s.Generations != 0 || s.Watches != 0 {
			t.Errorf("%d pollers, %d generations and %d watches are left", s.Pollers, s.Generations, s.Watches)
		}
	})
}

func TestWatchWaitsWhileSharedAPIKeyIsRejected(t *testing.T) {
	states, ids := generations(100)
	inBubble(t, states, func(b *bench) {
		b.up.fail = errRejected
		held := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("held") })
		s := b.watchWith(b.ctx, Request{Credential: held, IDs: ids})
		passTime(5 * time.Minute)
		if ended, err := s.done(); ended {
			t.Fatalf("the watch ended with %v", err)
		}
		b.up.with(func(u *upstream) { u.fail = nil })
		passTime(2 * time.Minute)
		if got := s.copyEvents(); len(got.updates) != 100 || len(got.caughtUp) != 1 {
			t.Errorf("%d states were delivered, want 100; caught up with %v", len(got.updates), got.caughtUp)
		}
	})
}
