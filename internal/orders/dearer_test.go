package orders_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

func TestAChargeAboveTheQuoteIsToldAndCounted(t *testing.T) { // T7
	inShop(t, 1000, func(s *shop) {
		price, limit, told := s.price(), int64(500), 0
		charge := price + 7
		r := s.replica()
		var logs strings.Builder
		r.orders.Logger, r.orders.Dearer = slog.New(slog.NewTextHandler(&logs, nil)), func() { told++ }
		r.answers(func(_ *http.Request, answer *http.Response) (*http.Response, error) {
			return charging(s, answer, charge)
		})
		placed, err := r.place("studio", "k", "a harbour", func(o *orders.Request) { o.Limits = ledger.Limits{DailyCents: &limit} })
		if err != nil || placed.Generation.CostCents == nil || *placed.Generation.CostCents != charge {
			s.Fatalf("it is answered %+v, %v", placed, err)
		}
		if told != 1 || !strings.Contains(logs.String(), "charged more than it quoted") {
			s.Errorf("told %d times, and the log has %q", told, logs.String())
		}
		all, err := s.ledger.Budgets(s.Context(), "studio", ledger.Limits{DailyCents: &limit})
		if err != nil || len(all) != 1 || all[0].SpentCents != charge || all[0].ReservedCents != 0 {
			s.Errorf("the budget is %+v, %v", all, err)
		}
	})
}

// charging changes what the answer of an order says that it has cost.
func charging(s *shop, answer *http.Response, cents int64) (*http.Response, error) {
	record := map[string]any{}
	if err := json.NewDecoder(answer.Body).Decode(&record); err != nil {
		s.Error(err)
	}
	record["costCents"] = cents
	text, err := json.Marshal(record)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	answer.Header.Del("Content-Length")
	return answer, err
}
