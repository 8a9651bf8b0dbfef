//go:build go1.25

package easel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// refused places an order on a server that responds with err, and returns the client's error.
func refused(t *testing.T, err error) (found error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{func(*easelv1.CreateGenerationRequest) error { return err }}}
		_, found = play(t, s).Generations.CreateGeneration(t.Context(), &easelv1.CreateGenerationRequest{})
	})
	return found
}

func TestBudgetErrorHasRemainingCentsAndResetTime(t *testing.T) {
	err := fmt.Errorf("as callers do: %w", refused(t, failedWith(codes.ResourceExhausted, "BUDGET_EXCEEDED", map[string]string{
		"remaining_cents": "7", "reset_time": "2026-12-01T00:00:00Z", "order_outcome": "not_placed", "label_name": "project", "label_value": "apollo",
	}, 0)))
	budget, base := (*easel.BudgetExceededError)(nil), (*easel.Error)(nil)
	if !errors.As(err, &budget) || !errors.As(err, &base) || base.RemainingCents != budget.RemainingCents {
		t.Fatalf("the error %v is not a BudgetExceededError that embeds its *Error", err)
	}
	if *budget.RemainingCents != 7 || !budget.ResetTime.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) || budget.OrderOutcome != easel.OutcomeNotPlaced || budget.LabelName != "project" || budget.LabelValue != "apollo" {
		t.Errorf("the error does not have the budget's values from the server: %+v", base)
	}
	if easel.IsRetryable(err) || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the error is retryable, or its code is %s and not ResourceExhausted", status.Code(err))
	}
}

func TestEveryReasonHasAClass(t *testing.T) {
	for number, reason := range easelv1.ErrorReason_name {
		if number == 0 {
			continue
		}
		err := refused(t, failed(codes.Unimplemented, reason, "", 0))
		fault := (*easel.ServerFaultError)(nil) // the class of an Unimplemented error whose reason is unknown
		byCode := errors.As(err, &fault)
		if want := strings.Contains(" UPSTREAM_REDIRECT_REFUSED UPSTREAM_CONTRACT_MISMATCH UNIMPLEMENTED ", " "+reason+" "); byCode != want || easel.ReasonOf(err) != reason {
			t.Errorf("the error for %s has the type %T and the reason %q", reason, err, easel.ReasonOf(err))
		}
	}
}

func TestCodeDeterminesTheClassWithoutAReason(t *testing.T) {
	for code, want := range map[codes.Code]any{
		codes.InvalidArgument: new(*easel.InvalidRequestError), codes.Unauthenticated: new(*easel.UnauthenticatedError), codes.PermissionDenied: new(*easel.PermissionDeniedError),
		codes.NotFound: new(*easel.NotFoundError), codes.Unavailable: new(*easel.UnavailableError), codes.Internal: new(*easel.UnavailableError),
		codes.DataLoss: new(*easel.ServerFaultError), codes.Unimplemented: new(*easel.ServerFaultError), codes.ResourceExhausted: new(*easel.InvalidRequestError),
	} {
		for _, err := range []error{refused(t, status.Error(code, "a proxy's")), refused(t, failed(code, "A_NEWER_ONE", "", 0))} {
			if !errors.As(err, want) {
				t.Errorf("the error for the code %s has the type %T, want %T", code, err, want)
			}
		}
	}
}
