package service

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

// reasonComments returns the comments on the error reasons in the contract, by reason. Each comment is a single line.
func reasonComments(t *testing.T) map[string]string {
	t.Helper()
	source, err := os.ReadFile("../../proto/easel/v1/error.proto")
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)((?:^  //.*\n)+)  ([A-Z_]+) = \d+;`).FindAllStringSubmatch(string(source), -1) {
		comments[m[2]] = strings.Join(strings.Fields(strings.ReplaceAll(m[1], "//", "")), " ")
	}
	return comments
}

func TestErrorReasonCodesMatchProtoComments(t *testing.T) {
	comments := reasonComments(t)
	for number, name := range easelv1.ErrorReason_name {
		reason := easelv1.ErrorReason(number)
		if reason == easelv1.ErrorReason_ERROR_REASON_UNSPECIFIED {
			continue
		}
		got, known := codesOf[reason]
		if said := regexp.MustCompile(`^[A-Z_]+`).FindString(comments[name]); !known || said != code.Code(got).String() {
			t.Errorf("%s is sent with %v (%v), but its comment is: %s", name, got, known, comments[name])
		}
	}
	if len(codesOf) != len(easelv1.ErrorReason_name)-1 {
		t.Errorf("%d reasons have codes, but the contract has %d", len(codesOf), len(easelv1.ErrorReason_name)-1)
	}
}

func TestReasonsWithRetryInfoAreDocumentedAsRetryable(t *testing.T) {
	comments := reasonComments(t)
	for _, r := range rules {
		if comment := comments[r.reason.String()]; r.retry && !strings.Contains(comment, " Retryable") {
			t.Errorf("%v has RetryInfo, but its comment is: %s", r.reason, comment)
		}
	}
}

// Each kind of catalog error has a single gRPC code. The only exception is a rejected API key: if it is the shared
// key, the code is INTERNAL.
func TestCatalogErrorsMapToExpectedStatus(t *testing.T) {
	for kind := catalog.Kind(1); !strings.HasPrefix(kind.String(), "kind("); kind++ {
		r, known := rules[kind]
		if !known {
			t.Errorf("the table of rules lacks the catalog error %v", kind)
		}
		for _, held := range []bool{false, true} {
			st, want := Status(&catalog.Error{Kind: kind, SharedKey: held}), codesOf[r.reason]
			if held && kind == catalog.KindCredentialRejected {
				want = codes.Internal
			}
			if st.Code() != want || Reason(st) != r.reason {
				t.Errorf("the catalog error %v was converted to %v", kind, st.Proto())
			}
		}
	}
}

func TestGRPCErrorCodeDeterminesReason(t *testing.T) {
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		st, name := Status(status.Error(c, "of a library")), code.Code(c).String()
		reason, known := libraryReasons[c]
		if known && (reason.String() != name || codesOf[reason] != c || Reason(st) != reason || st.Code() != c) {
			t.Errorf("a library error with the code %v was converted to %v", c, st.Proto())
		}
		if !known && (Reason(st) != easelv1.ErrorReason_INTERNAL || st.Code() != codes.Internal || strings.Contains(st.Message(), "library")) {
			t.Errorf("the unforeseen code %v becomes %v", c, st.Proto())
		}
		if info := Detail[*errdetails.ErrorInfo](st); info.GetDomain() != domain {
			t.Errorf("%v has the domain %q", c, info.GetDomain())
		}
	}
}

func TestLedgerAndOrderErrorsMapToExpectedStatus(t *testing.T) {
	secret := errors.New("pq: password of easel at db.internal")
	for name, row := range map[string]struct {
		err            error
		code           codes.Code
		reason         string
		retry, toLogIt bool
	}{
		"ledger unavailable":      {&ledger.Unavailable{Err: secret}, codes.Unavailable, "LEDGER_UNAVAILABLE", true, true},
		"ledger busy":             {&ledger.Busy{Err: secret}, codes.ResourceExhausted, "OVERLOADED", true, false},
		"commit in doubt":         {&ledger.Doubt{Err: secret}, codes.Unavailable, "LEDGER_UNAVAILABLE", true, true},
		"duplicate generation ID": {ledger.ErrGenerationTaken, codes.Internal, "INTERNAL", false, true},
		"ledger contradiction":    {&ledger.Contradiction{Err: secret}, codes.Internal, "INTERNAL", false, true},
		"an unknown account":      {&orders.Error{Outcome: orders.NotPlacedByThisCall, Err: orders.ErrAccountUnknown}, codes.Unavailable, "UPSTREAM_UNAVAILABLE", true, false},
		"budget exceeded":         {&ledger.BudgetError{Period: "day"}, codes.ResourceExhausted, "BUDGET_EXCEEDED", false, false},
		"model not allowed":       {&orders.Error{Outcome: orders.NotPlaced, Err: orders.ErrModelNotAllowed}, codes.PermissionDenied, "MODEL_NOT_ALLOWED", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("an order: %w", row.err)
			st := Status(err)
			if st.Code() != row.code || Reason(st).String() != row.reason || (Detail[*errdetails.RetryInfo](st) != nil) != row.retry {
				t.Errorf("the error was converted to %v", st.Proto())
			}
			if strings.Contains(fmt.Sprint(st.Proto()), "db.internal") {
				t.Errorf("the status reveals the database error: %v", st.Proto())
			}
			if LedgerFailed(err) != row.toLogIt {
				t.Errorf("LedgerFailed returned %v", LedgerFailed(err))
			}
		})
	}
}

func TestBudgetErrorReportsRemainderAndResetTime(t *testing.T) {
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
