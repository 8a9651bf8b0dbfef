package orders_test

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/orders"
)

// The orders of an owner are kept for the watches of everything: the next read of an older order is for its erasure.
func TestOwnOrdersDropErasedLabels(t *testing.T) {
	inShop(t, 1000, func(s *shop) {
		r, ctx, owner := s.replica(), s.Context(), "studio"
		own := r.orders.OwnOrders(r.held(owner), &owner)
		read := func() {
			if _, err := own.Read(ctx); err != nil {
				s.Fatal(err)
			}
		}
		read()
		placed := map[string]string{}
		for _, key := range []string{"erased", "kept", "newest"} {
			receipt, err := r.place(owner, key, "a harbour", func(r *orders.Request) { r.Labels = map[string]string{"customer": key} })
			if err != nil {
				s.Fatal(err)
			}
			placed[key] = receipt.Generation.ID
			ended := ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: new(int64(1)), Whole: true}}
			if _, err := s.ledger.Observe(ctx, receipt.Generation.ID, ended); err != nil {
				s.Fatal(err)
			}
			time.Sleep(time.Minute)
			read()
		}
		found, err := s.ledger.Own(ctx, nil, placed["erased"])
		if err == nil {
			_, err = s.ledger.Erase(ctx, found[placed["erased"]])
		}
		if err != nil {
			s.Fatal(err)
		}
		read()
		for key, want := range map[string]string{"erased": "", "kept": "kept", "newest": "newest"} {
			if whose, known := own.Whose(placed[key]); !known || whose.Labels["customer"] != want {
				s.Errorf("the order %s is known: %v, with the labels %v", key, known, whose.Labels)
			}
		}
	})
}
