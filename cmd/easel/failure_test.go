package main

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
)

func TestEveryKindOfErrorHasItsExitCode(t *testing.T) {
	for _, test := range []struct {
		code   codes.Code
		reason string
		exit   int
	}{
		{codes.InvalidArgument, "INVALID_REQUEST", exitUsage},
		{codes.OutOfRange, "READ_OFFSET_OUT_OF_RANGE", exitUsage},
		{codes.NotFound, "GENERATION_NOT_FOUND", exitNotFound},
		{codes.NotFound, "MODEL_NOT_FOUND", exitNotFound},
		{codes.FailedPrecondition, "INSUFFICIENT_BALANCE", exitMoney},
		{codes.FailedPrecondition, "PRICE_ABOVE_LIMIT", exitMoney},
		{codes.ResourceExhausted, "API_KEY_DAILY_CAP", exitMoney},
		{codes.Unauthenticated, "", exitCredential},
		{codes.PermissionDenied, "UPSTREAM_FORBIDDEN", exitCredential},
		{codes.Unavailable, "UPSTREAM_UNAVAILABLE", exitRetry},
		{codes.ResourceExhausted, "UPSTREAM_RATE_LIMITED", exitRetry},
		{codes.Aborted, "SUBMISSION_IN_PROGRESS", exitRetry},
		{codes.DeadlineExceeded, "", exitRetry},
		{codes.FailedPrecondition, "CONTENT_NOT_READY", exitRetry},
		{codes.FailedPrecondition, "GENERATION_ACTIVE", exitFailure},
		{codes.FailedPrecondition, "NO_CONTENT", exitFailure},
		{codes.Internal, "UPSTREAM_CONTRACT_MISMATCH", exitFailure},
		{codes.DataLoss, "CONTENT_CHANGED", exitFailure},
		{codes.Unimplemented, "", exitFailure},
	} {
		server := &scripted{get: func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
			return nil, failing(test.code, test.reason)
		}}
		got := easel(t.Context(), server.serve(t), "get", "gen_1")
		if got.exit != test.exit || got.stdout != "" {
			t.Errorf("%v %s: exit %d, want %d", test.code, test.reason, got.exit, test.exit)
		}
		if n := len(linesOf(got.stderr)); n < 1 || n > 2 || !strings.Contains(got.stderr, codeName(test.code)) || !strings.Contains(got.stderr, test.reason) {
			t.Errorf("%v %s: printed\n%s", test.code, test.reason, got.stderr)
		}
	}
}

func TestAnErrorTellsEveryBadFieldAndWhenToRetry(t *testing.T) {
	err := failing(codes.InvalidArgument, "INVALID_REQUEST", retryAfter(3*time.Second), &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "inputs.seed", Description: "must be a number"}, {Field: "model_id", Description: "is empty"},
		},
	})
	var text, line bytes.Buffer
	f := explain(t.Context(), err)
	f.write(&text)
	const want = "easel: it failed; inputs.seed: must be a number; model_id: is empty (INVALID_ARGUMENT INVALID_REQUEST); try again in 3.0s\n"
	if text.String() != want {
		t.Errorf("got  %swant %s", text.String(), want)
	}
	f.writeJSON(&line)
	var object struct {
		Error struct {
			Code, Reason, Message string
			Fields                []badField
			RetryDelaySeconds     float64
			ExitCode              int
		}
	}
	if err := json.Unmarshal(line.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	if e := object.Error; e.Code != "INVALID_ARGUMENT" || e.Reason != "INVALID_REQUEST" || len(e.Fields) != 2 || e.RetryDelaySeconds != 3 || e.ExitCode != exitUsage {
		t.Errorf("got %s", line.String())
	}
}

func TestErrorsAreJSONWhereTheOutputIs(t *testing.T) {
	server := &scripted{get: func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
		return nil, failing(codes.NotFound, "GENERATION_NOT_FOUND")
	}}
	got := easel(t.Context(), server.serve(t), "get", "gen_1", "-o", "json")
	if !json.Valid([]byte(got.stderr)) || len(linesOf(got.stderr)) != 1 {
		t.Errorf("not one line of JSON: %q", got.stderr)
	}
}

func TestAForeignMessageStaysOnItsLine(t *testing.T) {
	var text bytes.Buffer
	explain(t.Context(), errors.New("one\n\x1b[31mtwo")).write(&text)
	if text.String() != "easel: one [31mtwo\n" {
		t.Errorf("got %q", text.String())
	}
}

func TestAServerThatIsNotThereIsSaidToBeNotThere(t *testing.T) {
	got := easel(t.Context(), nil, "account", "--addr", "127.0.0.1:1")
	if got.exit != exitRetry || !strings.Contains(got.stderr, "127.0.0.1:1") || !strings.Contains(got.stderr, "--addr") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}
