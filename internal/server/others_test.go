package server_test

import (
	"crypto/rand"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// elsewhere orders n generations directly from the catalog and returns their IDs.
func elsewhere(s *stack, n int) (ids []string) {
	for range n {
		ids = append(ids, orderedElsewhere(s, rand.Text()))
	}
	return ids
}

// writtenElsewhere writes an owner's order to the ledger, as another replica does before it sends the order.
func writtenElsewhere(s *stack, owner string) ledger.Order {
	s.Helper()
	key := rand.Text()
	o, free, err := s.ledger.Write(s.Context(), ledger.Request{
		Namespace: owner, Owner: owner, Caller: owner, IdempotencyKey: key, UpstreamKey: key, APIKey: "another", ModelID: picture, Inputs: "{}", PriceCents: 1,
	})
	if err != nil || !free {
		s.Fatal(free, err)
	}
	return o
}

// settledElsewhere records, as another replica does, that an order has a generation and that its cost is final.
func settledElsewhere(s *stack, o ledger.Order, id string) {
	s.Helper()
	cost := int64(1)
	_, err := s.ledger.Conclude(s.Context(), o.ID, o.Leases, ledger.Conclusion{Outcome: lifecycle.Named, Generation: id, CostCents: &cost})
	if err == nil {
		_, err = s.ledger.Observe(s.Context(), id, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: &cost}})
	}
	if order, known, failed := s.ledger.Get(s.Context(), o.ID); err != nil || failed != nil || !known || !order.Settled {
		s.Fatalf("%s is %+v, %v, %v, %v", id, order, known, err, failed)
	}
}

// delivered counts the updates that all watches receive, and the distinct generations of each watch.
type delivered struct {
	atomic.Int64
	generations atomic.Int64
}

// everythingOf opens n watches of everything, and waits until each has caught up.
func everythingOf(t *testing.T, c caller, n int) (updates *delivered) {
	t.Helper()
	updates = new(delivered)
	for range n {
		watch := followed(t, c)
		go func() {
			seen := map[string]bool{}
			for update := range watch {
				updates.Add(1)
				if id := update.GetGeneration().GetGenerationId(); !seen[id] {
					seen[id] = true
					updates.generations.Add(1)
				}
			}
		}()
	}
	return updates
}

// moreThanAPage is a number of orders that is too large for one query for the latest orders.
const moreThanAPage = 110

func TestAWatchIsToldOfHoweverManyOrdersOthersHaveSettled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "callers")
	writeCallers(t, file, "", "team-0", "team-1")
	scenario := func(t *testing.T, s *stack, waits func(what string, until func() bool)) {
		settledElsewhere(s, writtenElsewhere(s, "team-0"), "gen_before") // the catalog no longer lists the generation of this order
		own, foreign := everythingOf(t, grpcCaller{s, "team-0"}, 2), everythingOf(t, grpcCaller{s, "team-1"}, 2)
		ids, lists := elsewhere(s, moreThanAPage), s.sandbox.Requests()["GET /generations"]
		waits("they are listed", func() bool { return s.sandbox.Requests()["GET /generations"] >= lists+2 })
		if own.Load() != 0 {
			t.Fatalf("%d updates before the owners are known", own.Load())
		}
		for _, id := range ids {
			settledElsewhere(s, writtenElsewhere(s, "team-0"), id)
		}
		waits("both watches are told of each", func() bool { return own.generations.Load() >= 2*moreThanAPage })
		if own.generations.Load() != 2*moreThanAPage || foreign.Load() != 0 {
			t.Errorf("two watches received %d generations, and another team's watches %d updates", own.generations.Load(), foreign.Load())
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := sharedStackFrom(t, file, func(o *options) { o.memory, o.sandbox.Speed = true, 100 })
			scenario(t, s, func(what string, until func() bool) {
				for deadline := time.Now().Add(time.Minute); !until(); time.Sleep(time.Second) {
					if time.Now().After(deadline) {
						t.Fatal("not within a minute:", what)
					}
				}
			})
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		s := sharedStackFrom(t, file, func(o *options) { o.ledger, o.sandbox.Speed = postgresLedger(t), 100 })
		scenario(t, s, func(what string, until func() bool) { eventually(t, what, until) })
	})
}
