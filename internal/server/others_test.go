package server_test

import (
	"context"
	"crypto/rand"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// writtenElsewhere writes an owner's order to the ledger and does not send it, as if another replica were about to
// send it.
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

// settledElsewhere records the generation ID and the final cost of an order in the ledger, as if another replica had
// done so.
func settledElsewhere(s *stack, o ledger.Order, id string) {
	s.Helper()
	cost := int64(1)
	_, err := s.ledger.Conclude(s.Context(), o.ID, o.Leases, ledger.Conclusion{Outcome: lifecycle.Named, Generation: id, CostCents: &cost})
	if err == nil {
		_, err = s.ledger.Observe(s.Context(), id, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: &cost}})
	}
	if order, known, failed := s.ledger.Get(s.Context(), o.ID); err != nil || failed != nil || !known || !order.Settled {
		s.Fatalf("the order of %s is %+v, found: %v, errors: %v, %v", id, order, known, err, failed)
	}
}

// moreThanAPage is a number of orders that exceeds one page of the query for the latest orders.
const moreThanAPage = 110

func TestWatchReceivesAllOrdersSettledByOtherProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "callers")
	writeCallers(t, file, "", "team-0", "team-1")
	scenario := func(t *testing.T, s *stack) {
		settledElsewhere(s, writtenElsewhere(s, "team-0"), "gen_before") // the catalog no longer lists the generation of this order
		own := []<-chan *easelv1.GenerationUpdate{followAll(t, grpcCaller{s, "team-0"}), followAll(t, grpcCaller{s, "team-0"})}
		foreign := followAll(t, grpcCaller{s, "team-1"})
		var ids []string
		for range moreThanAPage {
			ids = append(ids, orderedElsewhere(s, rand.Text()))
		}
		lists := s.sandbox.Requests()["GET /generations"]
		eventually(t, "the generations are listed", func() bool { return s.sandbox.Requests()["GET /generations"] >= lists+2 })
		if n := len(own[0]) + len(own[1]); n != 0 {
			t.Fatalf("got %d updates before the owners were known, want none", n)
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

// followAll opens a watch of all generations and waits until it has caught up. It returns a channel of the watch's
// updates.
func followAll(t *testing.T, c caller) <-chan *easelv1.GenerationUpdate {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	updates, caughtUp, ended := make(chan *easelv1.GenerationUpdate, 100), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { leave(); <-ended })
	go func() {
		defer close(ended)
		defer close(updates)
		_ = c.watchMany(ctx, &easelv1.WatchGenerationsRequest{}, func(m *easelv1.WatchGenerationsResponse) bool {
			if m.GetCaughtUp() != nil {
				close(caughtUp)
			}
			if m.GetUpdate() != nil {
				updates <- m.GetUpdate()
			}
			return true
		})
	}()
	select {
	case <-caughtUp:
	case <-time.After(20 * time.Second):
		t.Fatal("the watch has not caught up within 20 s")
	}
	return updates
}

// untilEnded reads updates until the given generations have ended, and returns each generation's last update.
func untilEnded(t *testing.T, updates <-chan *easelv1.GenerationUpdate, ids ...string) map[string]*easelv1.GenerationUpdate {
	t.Helper()
	ends := map[string]*easelv1.GenerationUpdate{}
	missing := func(id string) bool { return !ends[id].GetGeneration().GetTerminal() }
	for late := time.After(30 * time.Second); slices.ContainsFunc(ids, missing); {
		select {
		case u, open := <-updates:
			if !open {
				t.Fatalf("the watch ended after updates of %q", slices.Sorted(maps.Keys(ends)))
			}
			id := u.GetGeneration().GetGenerationId()
			if ends[id].GetGeneration().GetEtag() == u.GetGeneration().GetEtag() {
				t.Errorf("an update arrived twice: %v", u)
			}
			ends[id] = u
		case <-late:
			t.Fatalf("the watch received updates of %q, want %q", slices.Sorted(maps.Keys(ends)), ids)
		}
	}
	return ends
}

func TestOpenWatchReceivesGenerationRecordedLater(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		own, foreign, all := followAll(t, as("banner")), followAll(t, as("shop")), followAll(t, as("ops"))
		lost := s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", AfterCommit: true, Reset: true})
		answer := make(chan error, 1)
		go func() {
			req := labeledOrder(t, text, "k", map[string]string{"job": "7"})
			answer <- as("poster").call(t.Context(), "GenerationService/CreateGeneration", req, &easelv1.CreateGenerationResponse{})
		}()
		eventually(t, "the response is lost", func() bool { return lost.Fired() > 0 && len(listAll(t, as("ops"), nil, 0)) > 0 })
		id := listAll(t, as("ops"), nil, 0)[0].GetGenerationId()
		untilEnded(t, all, id) // waits until the operator's watch has received the terminal state
		time.Sleep(100 * time.Millisecond)
		if known, err := s.ledger.Own(t.Context(), nil, id); err != nil || len(known) > 0 || len(own) > 0 {
			t.Fatalf("before the order was recorded, the ledger returned %v, %v, and %d updates were sent", known, err, len(own))
		}
		s.sandbox.ClearFaults()
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
		end := untilEnded(t, own, id)[id]
		if g := end.GetGeneration(); end.GetInitial() || g.GetOwner() != "studio" || g.GetCaller() != "poster" || g.GetLabels()["job"] != "7" {
			t.Errorf("the watch received %v", end)
		}
		for name, updates := range map[string]<-chan *easelv1.GenerationUpdate{"banner": own, "shop": foreign} {
			last := create(t, as(name), order(t, text, "last", "a lake")).GetGenerationId()
			if ends := untilEnded(t, updates, last); len(ends) > 1 {
				t.Errorf("the watch of %s received %v, want one generation", name, ends)
			}
		}
	}, func(o *options) { o.sandbox.Speed = 200 })
}
