package orders_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestChargeAboveQuoteIsLoggedAndCounted(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		price, limit := s.price(), int64(500)
		charge := price + 7
		r := s.replica()
		var logs strings.Builder
		r.orders.Logger = slog.New(slog.NewTextHandler(&logs, nil))
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Set: map[string]any{"costCents": charge}})
		placed, err := r.place("studio", "k", "a harbour", withBudget(&limit))
		if err != nil || placed.Generation.CostCents == nil || *placed.Generation.CostCents != charge {
			s.Fatalf("the order returned %+v, %v", placed, err)
		}
		if told := s.ledger.Counts.Dearer.Load(); told != 1 || !strings.Contains(logs.String(), "charge exceeds quote") {
			s.Errorf("%d charges above the quote were reported, and the log has %q", told, logs.String())
		}
		all, err := s.ledger.Budgets(s.Context(), "studio", ledger.Limits{DailyCents: &limit})
		if err != nil || len(all) != 1 || all[0].SpentCents != charge || all[0].ReservedCents != 0 {
			s.Errorf("the budget is %+v, %v", all, err)
		}
	})
}

func TestLateChargeAboveQuoteIsReportedOnce(t *testing.T) {
	for name, read := range map[string]func(*replica, catalog.Generation){
		"by a poll":      (*replica).pollGeneration,
		"by the settler": func(r *replica, _ catalog.Generation) { runSettlement(3*time.Minute, r) },
	} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				var logs strings.Builder
				r.orders.Logger = slog.New(slog.NewTextHandler(&logs, nil))
				g := r.placeWithoutCharge(10)
				s.box.Inject(sandbox.Fault{Route: "GET /generations/{id}", Set: map[string]any{"costCents": 17}})
				read(r, g)
				r.pollGeneration(g)
				line := fmt.Sprintf(`"charge exceeds quote" generation=%s quoted_cents=10 cost_cents=17`, g.ID)
				told := s.ledger.Counts.Dearer.Load()
				if n := strings.Count(logs.String(), line); told != 1 || n != 1 || n != strings.Count(logs.String(), "charge exceeds") {
					s.Errorf("%d charges above the quote were reported, and the log has %q", told, logs.String())
				}
				if one := s.list(ledger.Filter{})[0]; one.CostCents == nil || *one.CostCents != 17 {
					s.Errorf("the order is %+v", one)
				}
			})
		})
	}
}

// placeWithoutCharge places an order for which the catalog's response contains no charge. quote is the price that the
// catalog quotes. If quote is zero, the order has no maximum cost, so no quote is requested.
func (r *replica) placeWithoutCharge(quote int64) catalog.Generation {
	r.Helper()
	quoting := r.box.Inject(sandbox.Fault{Route: "POST /quote", Body: fmt.Sprintf(`{"priceCents": %d}`, quote)})
	silent := r.box.Inject(sandbox.Fault{Route: "POST /generations", Set: map[string]any{"costCents": nil}})
	placed, err := r.place("studio", "k", "a harbour", func(o *orders.Request) {
		if quote > 0 {
			o.MaxCostCents = &quote
		}
	})
	if err != nil || placed.Generation.CostCents != nil || silent.Fired() != 1 || (quoting.Fired() == 1) != (quote > 0) {
		r.Fatalf("the order returned %+v, %v", placed, err)
	}
	return placed.Generation
}

// pollGeneration reads a generation from the catalog and records its state.
func (r *replica) pollGeneration(g catalog.Generation) {
	r.Helper()
	seen, err := r.client.Generation(r.Context(), r.held("studio"), g.ID)
	if err != nil {
		r.Fatal(err)
	}
	r.recordVersions(r.held("studio"), seen)
}
