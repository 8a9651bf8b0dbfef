package orders_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/watch"
)

// withOutbox reopens the ledger with an outbox for studio. The result lists the status and the deletion of each event.
func (s *shop) withOutbox() (events *[]string) {
	s.Helper()
	events = new([]string)
	if err := s.ledger.Close(); err != nil {
		s.Fatal(err)
	}
	l, err := ledger.Open(s.Context(), ledger.Config{
		URL: "sqlite:" + s.path, Catalog: "http://127.0.0.1" + sandbox.BasePath, ResendWindow: window, RefundWindow: refundWindow,
		Outbox: &ledger.Outbox{
			Teams: func() map[string]ledger.Team { return nil },
			Generation: func(o ledger.Order, _ *string) string {
				*events = append(*events, fmt.Sprint(o.Status, " ", o.IsGone()))
				return "{}"
			},
			Budget: func(ledger.Budget) string { return "{}" },
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.ledger = l
	return events
}

// recordAll records the queued states.
func (r *replica) recordAll() {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	r.orders.Record(ctx)
}

// ended returns a terminal state of a generation.
func ended(g catalog.Generation, state catalog.State, cents int64) catalog.Version {
	g.State, g.Status, g.CostCents = state, "ended", &cents
	return g.Version()
}

func TestAnEndThatWaitsIsRecordedBeforeTheNext(t *testing.T) {
	gone := func(g catalog.Generation) catalog.Version {
		return catalog.Generation{ID: g.ID, State: catalog.StateDeleted}.Version()
	}
	for name, c := range map[string]struct {
		see    func(*replica, catalog.Credential, catalog.Generation)
		events []string
	}{
		"a deletion is seen": {func(r *replica, cred catalog.Credential, g catalog.Generation) {
			r.orders.Sighted(watch.Sighting{Credential: cred, Version: ended(g, catalog.StateSucceeded, 7)})
			r.orders.Sighted(watch.Sighting{Credential: cred, Version: gone(g)})
		}, []string{fmt.Sprint(lifecycle.Succeeded, " false"), fmt.Sprint(lifecycle.Succeeded, " true")}},
		"a deletion of ours": {func(r *replica, cred catalog.Credential, g catalog.Generation) {
			r.orders.Sighted(watch.Sighting{Credential: cred, Version: ended(g, catalog.StateSucceeded, 7)})
			r.orders.Deleted(r.Context(), cred, g.ID)
		}, []string{fmt.Sprint(lifecycle.Succeeded, " false"), fmt.Sprint(lifecycle.Succeeded, " true")}},
		"a refund is seen": {func(r *replica, cred catalog.Credential, g catalog.Generation) {
			r.orders.Sighted(watch.Sighting{Credential: cred, Version: ended(g, catalog.StateFailed, 7)})
			r.orders.Sighted(watch.Sighting{Credential: cred, Version: ended(g, catalog.StateRefunded, 7)})
		}, []string{fmt.Sprint(lifecycle.Failed, " false"), fmt.Sprint(lifecycle.Refunded, " false")}},
	} {
		t.Run(name, func(t *testing.T) {
			inShop(t, 1000, func(s *shop) {
				events := s.withOutbox()
				r := s.replica()
				g := mustPlace(s, r, "k", "a harbour")
				c.see(r, r.held("studio"), g)
				r.recordAll()
				if !slices.Equal(*events, c.events) {
					s.Errorf("the events are %q, want %q", *events, c.events)
				}
				if one := s.list(ledger.Filter{})[0]; !one.Settled || one.UnconfirmedCents != 0 || one.CostCents == nil {
					s.Errorf("it is %+v", one)
				}
			})
		})
	}
}

func TestADeletionWaitsWhileTheLedgerIsAway(t *testing.T) {
	inShop(t, 1000, func(s *shop) {
		r := s.replica()
		g := mustPlace(s, r, "k", "a harbour")
		r.orders.Sighted(watch.Sighting{Credential: r.held("studio"), Version: ended(g, catalog.StateSucceeded, 7)})
		away, cancel := context.WithCancel(s.Context())
		cancel()
		r.orders.Deleted(away, r.held("studio"), g.ID)
		r.recordAll()
		if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Succeeded || !one.IsGone() || one.UnconfirmedCents != 0 {
			s.Errorf("it is %+v", one)
		}
	})
}

func TestWhatAForwardedAPIKeySeesIsRecordedBesideAnother(t *testing.T) {
	for name, recordBetween := range map[string]bool{"what another has seen has no order": true, "what another has seen waits": false} {
		t.Run(name, func(t *testing.T) {
			inShop(t, 1000, func(s *shop) {
				r, another := s.replica(), catalog.Forwarded(catalog.NewSecret("another of the account"))
				mine, g := placeForwarded(r, "a harbour")
				seen := ended(g, catalog.StateSucceeded, 7)
				if recordBetween {
					r.orders.Sighted(watch.Sighting{Credential: another, Version: seen})
					r.recordAll()
					time.Sleep(time.Second)
					r.orders.Sighted(watch.Sighting{Credential: mine, Version: seen})
				} else {
					r.orders.Sighted(watch.Sighting{Credential: mine, Version: seen})
					time.Sleep(time.Second)
					r.orders.Sighted(watch.Sighting{Credential: another, Version: ended(g, catalog.StateSucceeded, 8)})
				}
				r.recordAll()
				if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Succeeded {
					s.Errorf("it is %+v", one)
				}
			})
		})
	}
}

func TestAFailureUnderAForwardedAPIKeySettlesAfterTheWindow(t *testing.T) {
	inShop(t, 1000, func(s *shop) {
		r := s.replica()
		mine, g := placeForwarded(r, "a harbour")
		seen := ended(g, catalog.StateFailed, 7)
		for range 30 { // reads
			r.orders.Sighted(watch.Sighting{Credential: mine, Version: seen})
			r.recordAll()
			time.Sleep(time.Minute)
		}
		if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Failed || !one.Settled {
			s.Errorf("it is %+v", one)
		}
	})
}

// placeForwarded places an order of a caller that forwards its API key.
func placeForwarded(r *replica, prompt string) (catalog.Credential, catalog.Generation) {
	r.Helper()
	cred := catalog.Forwarded(catalog.NewSecret(r.key))
	receipt, err := r.orders.Place(r.Context(), cred, orders.Request{
		ModelID: "studio/haiku", Inputs: fmt.Appendf(nil, `{"prompt":%q}`, prompt), IdempotencyKey: "k", UpstreamKey: "k",
	})
	if err != nil {
		r.Fatal(err)
	}
	return cred, receipt.Generation
}
