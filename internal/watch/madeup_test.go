package watch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/watch"
)

// Callers can make API keys up without end.
func TestAnAPIKeyThatTheCatalogNeverAcceptsLeavesNothingInTheBook(t *testing.T) {
	for name, says := range map[string]error{
		"rejected":  errRejected,
		"throttled": &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", Status: 429},
		"down":      &catalog.Error{Kind: catalog.KindUnavailable, Op: "x", Status: 503},
	} {
		inGroup(t, 2, nil, func(g *group) {
			g.up.with(func(u *upstream) { u.fail = says })
			var sums []string
			for n := range 20 {
				cred := catalog.Forwarded(catalog.NewSecret(fmt.Sprint("made-up-", n)))
				sums = append(sums, cred.APIKeySum())
				g.replicas[n%2].watchWith(g.ctx, watch.Request{Credential: cred, IDs: []string{"a", "b"}})
				g.replicas[n%2].hub.Call(g.ctx, cred, says)
			}
			pass(time.Minute)
			if g.requests(time.Time{}) < len(sums) {
				t.Errorf("%s: the catalog is not asked about each", name)
			}
			for _, sum := range sums {
				if news, err := g.replicas[0].Polls.News(g.ctx, sum, shared.Cursor{}, nil); err != nil || news.Key.Born != 0 {
					t.Errorf("%s: the book has %+v, %v", name, news, err)
				}
			}
		})
	}
}

// The book has states for an hour, and an API key may be revoked since, as it was stolen.
func TestARevokedAPIKeyGetsNothingOfTheBook(t *testing.T) {
	for n := range 5 {
		ids, states := manyIDs(n + 1)
		for _, id := range ids {
			states[id] = succeeded
		}
		inGroup(t, 2, states, func(g *group) {
			first := g.replicas[0].watch(ids...)
			pass(20 * time.Minute)
			g.replicas[0].wantEnd(first, nil)
			g.up.with(func(u *upstream) { u.fail = errRejected })
			late := g.replicas[1].watch(ids...)
			pass(time.Second)
			g.replicas[1].wantEnd(late, errRejected)
			g.wantStates([]*seen{late})
		})
	}
}

func TestABookThatHangsHoldsUpNoMoreThanTheFirstAPIKey(t *testing.T) {
	inGroup(t, 1, map[string]catalog.State{"a": queued}, func(g *group) {
		r := g.replicas[0]
		r.with(func(r *way) { r.slow = time.Hour })
		for n, most := range []time.Duration{6 * time.Second, time.Second, time.Second} {
			cred := catalog.Forwarded(catalog.NewSecret(fmt.Sprint("key-", n)))
			began, s := time.Now(), r.watchWith(g.ctx, watch.Request{Credential: cred, IDs: []string{"a"}})
			pass(10 * time.Second)
			if got := s.look(); len(got.at) == 0 || got.at[0].Sub(began) > most {
				t.Errorf("watch %d begins at %v, and it is %v", n, got.at, began)
			}
		}
	})
}
