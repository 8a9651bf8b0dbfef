package orders_test

import (
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// recordList passes the catalog's list to ListedLater, as a caller's list request does. The ledger and the list
// must each contain exactly one generation. recordList returns this generation's status in the ledger after the
// call.
func (r *replica) recordList(cred catalog.Credential, listed ...catalog.Version) lifecycle.Status {
	r.Helper()
	recorded, err := r.orders.List(r.Context(), ledger.Filter{}, ledger.Position{}, 10)
	if err != nil || len(recorded) != 1 || len(listed) != 1 {
		r.Fatalf("%d generations are recorded and %d are listed, want 1 and 1: %v", len(recorded), len(listed), err)
	}
	r.orders.ListedLater(r.Context(), cred, recorded, catalog.NewList(listed))
	return r.list(ledger.Filter{})[0].Status
}

func TestIncompleteFinalStateInListIsReadIndividually(t *testing.T) {
	for name, row := range map[string]struct {
		without string // field that the list omits
		told    []string
		want    lifecycle.Status
	}{
		"text omitted, owner subscribed":         {"textOutput", []string{"studio"}, lifecycle.Unseen},
		"text omitted, no subscriber":            {"textOutput", nil, lifecycle.Succeeded},
		"text omitted, another owner subscribed": {"textOutput", []string{"print"}, lifecycle.Succeeded},
		"cost omitted":                           {"costCents", nil, lifecycle.Unseen},
		"inputs omitted, owner subscribed":       {"inputs", []string{"studio"}, lifecycle.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				r.placeWithoutCharge(0)
				s.enableEvents(row.told...)
				r.orders.Ledger = s.ledger // necessary, because enableEvents replaces s.ledger
				time.Sleep(time.Minute)
				s.box.Inject(sandbox.Fault{Route: "GET /generations", Set: map[string]any{row.without: nil}})
				listed, err := r.client.List(s.Context(), r.held("studio"), time.Now())
				if err != nil {
					s.Fatal(err)
				}
				if got := r.recordList(r.held("studio"), listed.Records...); got != row.want {
					s.Errorf("the recorded state is %v, want %v", got, row.want)
				}
				runSettlement(3*time.Minute, r)
				one := s.list(ledger.Filter{})[0]
				if one.Status != lifecycle.Succeeded || one.CostCents == nil {
					s.Errorf("the recorded order is %+v", one)
				}
				if all := s.writtenEvents(); len(all) != 1 || slices.Contains(row.told, "studio") && all[0].Data == "" {
					s.Errorf("the owner's events are %+v", all)
				}
			})
		})
	}
}

func TestFinalStateInListIsRecordedForUnpolledOrder(t *testing.T) {
	for name, place := range map[string]func(*replica) (catalog.Credential, catalog.Generation){
		"forwarded API key": placeForwarded,
		"settled order": func(r *replica) (catalog.Credential, catalog.Generation) {
			g := mustPlace(r.stack, r, "k", "a harbour")
			for range 2 {
				if _, err := r.ledger.Observe(r.Context(), g.ID, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Failed}}); err != nil {
					r.Fatal(err)
				}
				time.Sleep(refundWindow)
			}
			return r.held("studio"), g
		},
	} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				cred, g := place(r)
				g.State, g.Status, g.CostCents = catalog.StateRefunded, "refunded", nil
				if got := r.recordList(cred, g.Version()); got != lifecycle.Refunded {
					s.Errorf("the recorded state is %v", got)
				}
			})
		})
	}
}
