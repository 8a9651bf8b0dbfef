package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestEveryKindOfErrorHasItsExitCode(t *testing.T) {
	for _, test := range []struct {
		code   codes.Code
		reason string
		exit   int
	}{
		{codes.InvalidArgument, "INVALID_REQUEST", ExitUsage},
		{codes.OutOfRange, "READ_OFFSET_OUT_OF_RANGE", ExitUsage},
		{codes.NotFound, "GENERATION_NOT_FOUND", ExitNotFound},
		{codes.NotFound, "MODEL_NOT_FOUND", ExitNotFound},
		{codes.FailedPrecondition, "INSUFFICIENT_BALANCE", ExitMoney},
		{codes.ResourceExhausted, "BUDGET_EXCEEDED", ExitMoney},
		{codes.PermissionDenied, "MODEL_NOT_ALLOWED", ExitCredential},
		{codes.Unavailable, "LEDGER_UNAVAILABLE", ExitRetry},
		{codes.FailedPrecondition, "PRICE_ABOVE_LIMIT", ExitMoney},
		{codes.ResourceExhausted, "API_KEY_DAILY_CAP", ExitMoney},
		{codes.Unauthenticated, "", ExitCredential},
		{codes.PermissionDenied, "UPSTREAM_FORBIDDEN", ExitCredential},
		{codes.Unavailable, "UPSTREAM_UNAVAILABLE", ExitRetry},
		{codes.ResourceExhausted, "UPSTREAM_RATE_LIMITED", ExitRetry},
		{codes.Aborted, "SUBMISSION_IN_PROGRESS", ExitRetry},
		{codes.DeadlineExceeded, "", ExitRetry},
		{codes.FailedPrecondition, "CONTENT_NOT_READY", ExitRetry},
		{codes.FailedPrecondition, "GENERATION_ACTIVE", ExitFailure},
		{codes.FailedPrecondition, "ORDER_EXPIRED", ExitFailure},
		{codes.FailedPrecondition, "NO_CONTENT", ExitFailure},
		{codes.Internal, "UPSTREAM_CONTRACT_MISMATCH", ExitFailure},
		{codes.DataLoss, "CONTENT_CHANGED", ExitFailure},
		{codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED", ExitUsage},
		{codes.InvalidArgument, "UPSTREAM_INVALID_INPUT", ExitUsage},
		{codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED", ExitCredential},
		{codes.NotFound, "", ExitNotFound},
		{codes.PermissionDenied, "", ExitCredential},
		{codes.InvalidArgument, "", ExitUsage},
		{codes.FailedPrecondition, "", ExitFailure},
		{codes.Unimplemented, "", ExitFailure},
	} {
		server := &scripted{get: func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
			return nil, serverError(test.code, test.reason)
		}}
		got := easelRun(t.Context(), server.serve(t), "get", "gen_1")
		if got.exit != test.exit || got.stdout != "" {
			t.Errorf("%v %s: exit %d, want %d", test.code, test.reason, got.exit, test.exit)
		}
		if n := len(linesOf(got.stderr)); n < 1 || n > 2 || !strings.Contains(got.stderr, codeName(test.code)) || !strings.Contains(got.stderr, test.reason) {
			t.Errorf("%v %s: printed\n%s", test.code, test.reason, got.stderr)
		}
	}
}

func TestBudgetErrorSuggestsAccountOrUsageCommand(t *testing.T) {
	for want, metadata := range map[string]map[string]string{
		"easel account shows the budgets, and the times when they are reset.":                {"order_outcome": "not_placed"},
		"easel usage --by label=project shows the amount spent for each value of the label.": {"order_outcome": "not_placed", "label_name": "project", "label_value": "apollo"},
	} {
		err := failingWith(codes.ResourceExhausted, &errdetails.ErrorInfo{Reason: "BUDGET_EXCEEDED", Domain: "easel", Metadata: metadata})
		got := easelRun(t.Context(), (&orders{errors: []error{err}}).serve(t), "generate", "studio/any")
		if got.exit != ExitMoney || !strings.Contains(got.stderr, "       Nothing was ordered. "+want+"\n") {
			t.Errorf("exit %d\n%s", got.exit, got.stderr)
		}
	}
}

func TestErrorListsInvalidFieldsAndRetryDelay(t *testing.T) {
	dial := (&scripted{get: func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
		return nil, serverError(codes.InvalidArgument, "INVALID_REQUEST", retryAfter(3*time.Second), &errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{
				{Field: "inputs.seed", Description: "must be a number"}, {Field: "model_id", Description: "is empty"},
			},
		})
	}}).serve(t)
	const want = "easel: it failed; inputs.seed: must be a number; model_id: is empty (INVALID_ARGUMENT INVALID_REQUEST); try again in 3s\n"
	if got := easelRun(t.Context(), dial, "get", "gen_1"); got.stderr != want {
		t.Errorf("got  %swant %s", got.stderr, want)
	}
	var object struct {
		Error struct {
			Code, Reason, Message string
			Fields                []badField
			RetryDelaySeconds     float64
			ExitCode              int
		}
	}
	got := easelRun(t.Context(), dial, "get", "gen_1", "-o", "json")
	if err := json.Unmarshal([]byte(got.stderr), &object); err != nil {
		t.Fatal(err)
	}
	if e := object.Error; e.Code != "INVALID_ARGUMENT" || e.Reason != "INVALID_REQUEST" || len(e.Fields) != 2 || e.RetryDelaySeconds != 3 || e.ExitCode != ExitUsage {
		t.Errorf("got %s", got.stderr)
	}
}

func TestErrorMessageIsEscapedAndPrintedOnOneLine(t *testing.T) {
	var text bytes.Buffer
	failureOf(t.Context(), errors.New("one\n\x1b[31mtwo")).write(&text)
	if text.String() != "easel: one \\u001b[31mtwo\n" {
		t.Errorf("got %q", text.String())
	}
}

func TestInvalidAPIKeyErrorNamesItsSource(t *testing.T) {
	const fault = ": the API key contains spaces, line breaks or invalid characters\n"
	for source, got := range map[string]printed{
		"EASEL_API_KEY":  easelEnv(t.Context(), nil, map[string]string{"EASEL_API_KEY": "two words"}, "account"),
		"--api-key-file": easelRun(t.Context(), nil, "account", "--api-key-file", proctest.File(t, "two\nlines\n")),
	} {
		if got.exit != ExitUsage || got.stderr != "easel: "+source+fault {
			t.Errorf("%s: exit %d\n%s", source, got.exit, got.stderr)
		}
	}
}

func TestFailedGenerateCommandPrintsRenderAsJSON(t *testing.T) {
	end := render("gen_1", failed)
	end.FailureMessage = "no paint"
	dial := orderingServer(func(_ *easelv1.WatchGenerationRequest, s oneStream) error { return sendRender(s, end) },
		func(*easelv1.DownloadGenerationRequest, downloadStream) error {
			return serverError(codes.FailedPrecondition, "NO_CONTENT")
		}).serve(t)
	for _, test := range []struct {
		state               easelv1.State
		exit                int
		wantState, wantCode string
	}{
		{failed, ExitGenerationFailed, "STATE_FAILED", ""},
		{succeeded, ExitFailure, "STATE_SUCCEEDED", "NO_CONTENT"},
	} {
		end.State, end.Etag = test.state, test.state.String()
		got := easelRun(t.Context(), dial, "generate", "studio/any", "--out", t.TempDir(), "-o", "json")
		var g map[string]any
		var told struct {
			Error struct{ GenerationID, Code, Reason, Message string }
		}
		lines := linesOf(got.stderr)
		if json.Unmarshal([]byte(got.stdout), &g) != nil || json.Unmarshal([]byte(lines[len(lines)-1]), &told) != nil {
			t.Fatalf("not JSON:\n%s%s", got.stdout, got.stderr)
		}
		if got.exit != test.exit || g["state"] != test.wantState || told.Error.GenerationID != "gen_1" || told.Error.Reason != test.wantCode {
			t.Errorf("exit %d, want %d\n%s%s", got.exit, test.exit, got.stdout, got.stderr)
		}
	}
}

func TestAPIKeyErrorDoesNotRevealKey(t *testing.T) {
	const settings = "EASEL_API_KEY or --api-key-file"
	for reason, want := range map[string]string{
		"CREDENTIAL_MISSING":           "easel: no API key (UNAUTHENTICATED CREDENTIAL_MISSING)\n       Set " + settings + ".\n",
		"CALLER_UNKNOWN":               settings,
		"UPSTREAM_CREDENTIAL_REJECTED": settings,
		"":                             settings,
	} {
		dial := (&scripted{get: func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
			return nil, serverError(codes.Unauthenticated, reason)
		}}).serve(t)
		got := easelEnv(t.Context(), dial, map[string]string{"EASEL_API_KEY": "wrong-token"}, "get", "gen_1")
		if got.exit != ExitCredential || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "wrong-token") {
			t.Errorf("%s: exit %d\n%s", reason, got.exit, got.stderr)
		}
	}
}

func TestExitCodesAreListed(t *testing.T) {
	if got := easelRun(t.Context(), nil, "exit-codes"); got.exit != ExitOK || got.stdout != exitCodes {
		t.Errorf("printed\n%s", got.stdout)
	}
}
