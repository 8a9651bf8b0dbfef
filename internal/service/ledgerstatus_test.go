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

	"github.com/easel-grpc/easel/internal/catalog"
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
		"does not answer": {&ledger.Unavailable{Err: secret}, codes.Unavailable, "LEDGER_UNAVAILABLE", true, true},
		"in doubt":        {&ledger.Doubt{Err: secret}, codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", true, true},
		"an id twice":     {ledger.ErrGenerationTaken, codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", true, true},
		"a budget":        {&ledger.BudgetError{Period: "day"}, codes.ResourceExhausted, "BUDGET_EXCEEDED", false, false},
		"a model":         {&orders.NotPlacedError{Err: orders.ErrModelNotAllowed}, codes.PermissionDenied, "MODEL_NOT_ALLOWED", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("an order: %w", row.err)
			st := Status(err)
			if st.Code() != row.code || Reason(st).String() != row.reason || (Detail[*errdetails.RetryInfo](st) != nil) != row.retry {
				t.Errorf("it is told as %v", st.Proto())
			}
			if strings.Contains(fmt.Sprint(st.Proto()), "db.internal") {
				t.Errorf("the database's own words are told: %v", st.Proto())
			}
			if LedgerFailed(err) != row.toLogIt {
				t.Errorf("it is to be logged: %v", LedgerFailed(err))
			}
		})
	}
}

func TestAnExceededBudgetSaysHowMuchIsLeftAndUntilWhen(t *testing.T) {
	err := &orders.NotPlacedError{Err: &ledger.BudgetError{Period: "month", Reset: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), PriceCents: 11, RemainingCents: 4}}
	st := Status(&orderError{err, outcomeOf(catalog.Credential{Held: true}, true, err)})
	want := map[string]string{
		"window": "month", "reset_time": "2026-12-01T00:00:00Z", "remaining_cents": "4", "price_cents": "11", "order_outcome": "not_placed",
	}
	if got := Detail[*errdetails.ErrorInfo](st).GetMetadata(); !maps.Equal(got, want) {
		t.Errorf("its metadata is %v", got)
	}
	if len(Detail[*errdetails.QuotaFailure](st).GetViolations()) != 1 {
		t.Errorf("it has no QuotaFailure: %v", st.Proto())
	}
}

func TestThatThereIsNoOrderIsOnlySaidBehindAHeldAPIKeyByADurableLedger(t *testing.T) {
	held, forwarded, forgetful := catalog.Credential{Held: true}, catalog.Credential{}, catalog.Credential{Held: true, Owner: "of a ledger in memory"}
	for name, row := range map[string]struct {
		cred catalog.Credential
		err  error
		want OrderOutcome
	}{
		"a ledger that forgets":       {forgetful, &orders.NotPlacedError{Err: &catalog.Error{Kind: catalog.KindForbidden}}, OrderUnknown},
		"too dear for one's budget":   {forgetful, &orders.NotPlacedError{Err: &ledger.BudgetError{}}, OrderNotPlacedByThisCall},
		"the ledger knows":            {held, &orders.NotPlacedError{Err: &catalog.Error{Kind: catalog.KindForbidden}}, OrderNotPlaced},
		"refused under its own key":   {forwarded, &orders.NotPlacedError{Err: &catalog.Error{Kind: catalog.KindForbidden}}, OrderUnknown},
		"too dear under its own key":  {forwarded, &orders.NotPlacedError{Err: &catalog.Error{Kind: catalog.KindPriceAboveLimit, Unsent: true}}, OrderNotPlacedByThisCall},
		"the ledger does not answer":  {held, &ledger.Unavailable{Err: errors.New("away")}, OrderNotPlacedByThisCall},
		"it went away meanwhile":      {held, &catalog.Error{Kind: catalog.KindOutcomeUnknown, Err: &ledger.Unavailable{Err: errors.New("away")}}, OrderUnknown},
		"the ledger may have written": {held, &ledger.Doubt{Err: errors.New("away")}, OrderUnknown},
	} {
		if got := outcomeOf(row.cred, row.cred.Owner != forgetful.Owner, row.err); got != row.want {
			t.Errorf("%s: told %q", name, got)
		}
	}
}
