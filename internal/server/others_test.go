package server_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"
	"testing/synctest"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

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

// moreThanAPage is a number of orders that is too large for one query for the latest orders.
const moreThanAPage = 110

func TestAWatchIsToldOfHoweverManyOrdersOthersHaveSettled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "callers")
	writeCallers(t, file, "", "team-0", "team-1")
	scenario := func(t *testing.T, s *stack) {
		settledElsewhere(s, writtenElsewhere(s, "team-0"), "gen_before") // the catalog no longer lists the generation of this order
		own := []<-chan *easelv1.GenerationUpdate{followed(t, grpcCaller{s, "team-0"}), followed(t, grpcCaller{s, "team-0"})}
		foreign := followed(t, grpcCaller{s, "team-1"})
		var ids []string
		for range moreThanAPage {
			ids = append(ids, orderedElsewhere(s, rand.Text()))
		}
		lists := s.sandbox.Requests()["GET /generations"]
		eventually(t, "they are listed", func() bool { return s.sandbox.Requests()["GET /generations"] >= lists+2 })
		if n := len(own[0]) + len(own[1]); n != 0 {
			t.Fatalf("%d updates before the owners are known", n)
		}
		for _, id := range ids {
			settledElsewhere(s, writtenElsewhere(s, "team-0"), id)
		}
		for _, updates := range own {
			if ends := untilEnded(t, updates, ids...); len(ends) != moreThanAPage {
				t.Errorf("a watch received %d generations", len(ends))
			}
		}
		if len(foreign) != 0 {
			t.Errorf("another team's watch received %d updates", len(foreign))
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			scenario(t, sharedStackFrom(t, file, func(o *options) { o.memory, o.sandbox.Speed = true, 100 }))
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		scenario(t, sharedStackFrom(t, file, func(o *options) { o.ledger, o.sandbox.Speed = postgresLedger(t), 100 }))
	})
}
