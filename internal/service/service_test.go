package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/orders"
)

func reason(err error) string {
	return Detail[*errdetails.ErrorInfo](status.Convert(err)).GetReason()
}

func TestUnknownOrderOutcomeSuggestsRetryWithinWindow(t *testing.T) {
	for cause, again := range map[error]bool{io.EOF: true, orders.ErrResendWindow: false} {
		st := Status(&catalog.Error{Kind: catalog.KindOutcomeUnknown, Err: cause})
		asks := strings.Contains(st.Message(), "send the same idempotency_key again")
		if st.Code() != codes.Unavailable || reason(st.Err()) != "SUBMISSION_OUTCOME_UNKNOWN" || asks != again || (Detail[*errdetails.RetryInfo](st) != nil) != again {
			t.Errorf("after %v: %v", cause, st.Proto())
		}
	}
}

func TestNotFoundErrorExplainsNextStep(t *testing.T) {
	unknown := &catalog.Error{Kind: catalog.KindNotFound, Status: 404, Own: true, Message: "There is no such thing."}
	for text, errs := range map[string][]error{
		"render not found; check generation_id, and call with the credential of the team or API key that ordered the render": {noGeneration("g"), aboutGeneration(unknown, "g")},
		"model not found; ListModels returns the IDs": {aboutModel(unknown, "m")},
	} {
		for _, err := range errs { // the error for another team's render must not differ from the error for a missing render
			if st := Status(err); st.Code() != codes.NotFound || st.Message() != text {
				t.Errorf("%v: %v", err, st.Proto())
			}
		}
	}
}

func TestRejectionMessageSuggestsNextStep(t *testing.T) {
	invalid := func(fields ...string) *catalog.Error {
		e := &catalog.Error{Kind: catalog.KindInvalidInput, Status: 400, Message: "No."}
		for _, field := range fields {
			e.Violations = append(e.Violations, Violation{Field: field})
		}
		return e
	}
	for text, err := range map[string]error{
		"the catalog rejects this API key: it is wrong or was revoked; send a valid API key": &catalog.Error{Kind: catalog.KindCredentialRejected, Status: 401, Message: "The key is wrong."},
		"the catalog rejects the input: No.":                                                 invalid(),
		"the catalog rejects the input: No.; GetModel lists the inputs":                      invalid("inputs.size"),
		"the catalog rejects the input: No.; ListModels returns the IDs":                     invalid("inputs.size", "model_id"),
	} {
		if st := Status(err); st.Message() != text {
			t.Errorf("%q, want %q", st.Message(), text)
		}
	}
}

func TestUnexpectedErrorRevealsNoDetailsToCaller(t *testing.T) {
	st := Status(errors.New("open /etc/secret: no"))
	if st.Code() != codes.Internal || strings.Contains(st.Message(), "secret") || reason(st.Err()) != "INTERNAL" {
		t.Errorf("%v", st.Proto())
	}
}

func TestContextErrorsKeepTheirCodes(t *testing.T) {
	for err, want := range map[error]codes.Code{context.Canceled: codes.Canceled, context.DeadlineExceeded: codes.DeadlineExceeded} {
		if st := Status(fmt.Errorf("x: %w", err)); st.Code() != want || reason(st.Err()) == "" {
			t.Errorf("%v: %v", err, st)
		}
	}
}

func TestLongErrorStatusIsTruncated(t *testing.T) {
	var many []Violation
	for i := range 1000 {
		many = append(many, Violation{Field: fmt.Sprintf("generation_ids[%d]", i), Description: strings.Repeat("x", 2000)})
	}
	st := Status(InvalidRequest(many...))
	if n := proto.Size(st.Proto()); n > 5<<10 {
		t.Errorf("the status has %d bytes, want at most 5 KiB", n)
	}
	violations := Detail[*errdetails.BadRequest](st).GetFieldViolations()
	if last := violations[len(violations)-1]; !strings.HasSuffix(last.GetDescription(), "more violations") {
		t.Errorf("the last violation does not count the omitted ones: %v", last)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
