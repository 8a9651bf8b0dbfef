package watch_test

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
)

func TestAPauseOfOneReplicaClosesTheGatesOfAll(t *testing.T) {
	inGroup(t, 2, nil, func(g *group) {
		held := catalog.Held(func() catalog.Secret { return catalog.NewSecret("the-first-key-that-is-held") })
		mine, other := g.replicas[0], g.replicas[1]
		go mine.hub.ShareGate(g.ctx, held)
		for _, deaf := range []bool{false, true} { // the ledger may not notify
			mine.with(func(r *way) { r.deaf = deaf })
			if _, err := other.Write(g.ctx, held.APIKeySum(), shared.Found{Pause: time.Now().Add(time.Minute)}); err != nil {
				t.Fatal(err)
			}
			within := 100 * time.Millisecond
			if deaf {
				within = time.Second
			}
			pass(within)
			if paused := mine.hub.GateOf(held).State().Paused; paused.Before(time.Now().Add(50 * time.Second)) {
				t.Errorf("deaf %v: the gate is open %v later", deaf, within)
			}
			pass(2 * time.Minute)
		}
	})
}
