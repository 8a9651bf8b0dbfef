package service

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

func TestEveryErrorOfTheLedgerHasItsStatus(t *testing.T) {
	secret := errors.New("pq: password of easel at db.internal")
	for name, row := range map[string]struct {
		err            error
		code           codes.Code
		reason         string
		retry, toLogIt bool
	}{
		"does not answer":    {&ledger.Unavailable{Err: secret}, codes.Unavailable, "LEDGER_UNAVAILABLE", true, true},
		"has too much to do": {&ledger.Busy{Err: secret}, codes.ResourceExhausted, "OVERLOADED", true, false},
		"in doubt":           {&ledger.Doubt{Err: secret}, codes.Unavailable, "LEDGER_UNAVAILABLE", true, true},
		"an id twice":        {ledger.ErrGenerationTaken, codes.Internal, "INTERNAL", false, true},
		"a contradiction":    {&ledger.Contradiction{Err: secret}, codes.Internal, "INTERNAL", false, true},
		"an unknown account": {&orders.Error{Outcome: orders.NotPlacedByThisCall, Err: orders.ErrAccountUnknown}, codes.Unavailable, "UPSTREAM_UNAVAILABLE", true, false},
		"a budget":           {&ledger.BudgetError{Period: "day"}, codes.ResourceExhausted, "BUDGET_EXCEEDED", false, false},
		"a model":            {&orders.Error{Outcome: orders.NotPlaced, Err: orders.ErrModelNotAllowed}, codes.PermissionDenied, "MODEL_NOT_ALLOWED", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("an order: %w", row.err)
			st := Status(err)
			if st.Code() != row.code || Reason(st).String() != row.reason || (Detail[*errdetails.RetryInfo](st) != nil) != row.retry {
				t.Errorf("the error becomes %v", st.Proto())
			}
			if strings.Contains(fmt.Sprint(st.Proto()), "db.internal") {
				t.Errorf("the status has the database's own message: %v", st.Proto())
			}
			if LedgerFailed(err) != row.toLogIt {
				t.Errorf("LedgerFailed returned %v", LedgerFailed(err))
			}
		})
	}
}

func TestAnExceededBudgetSaysHowMuchIsLeftAndUntilWhen(t *testing.T) {
	err := &ledger.BudgetError{Period: "month", Reset: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), PriceCents: 11, RemainingCents: 4}
	st := Status(&orders.Error{Outcome: orders.NotPlaced, Err: err})
	want := map[string]string{
		"window": "month", "reset_time": "2026-12-01T00:00:00Z", "remaining_cents": "4", "price_cents": "11", "order_outcome": "not_placed",
	}
	if got := Detail[*errdetails.ErrorInfo](st).GetMetadata(); !maps.Equal(got, want) {
		t.Errorf("the metadata is %v", got)
	}
	if len(Detail[*errdetails.QuotaFailure](st).GetViolations()) != 1 {
		t.Errorf("the status has no QuotaFailure: %v", st.Proto())
	}
	err.Total = true
	all := Status(err)
	if Detail[*errdetails.QuotaFailure](all).GetViolations()[0].GetSubject() != "total" || !strings.Contains(all.Message(), "the budget of all teams for this month is too small") {
		t.Errorf("the status for the budget of all teams is %v", all.Proto())
	}
	if _, says := Detail[*errdetails.ErrorInfo](all).GetMetadata()["remaining_cents"]; says {
		t.Errorf("the status reveals the remaining budget of all teams: %v", all.Proto())
	}
}
