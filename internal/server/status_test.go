package server_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/easel-grpc/easel/internal/service"
)

// detailOf returns the detail of type T in st. If st has no such detail, ok is false. If st has several, the test
// fails.
func detailOf[T any](t *testing.T, st *status.Status) (found T, ok bool) {
	t.Helper()
	for _, d := range st.Details() {
		if d, is := d.(T); is {
			if ok {
				t.Errorf("a detail type occurs twice in %v", st.Proto())
			}
			found, ok = d, true
		}
	}
	return found, ok
}

func statusOf(t *testing.T, err error) *status.Status {
	t.Helper()
	st, ok := status.FromError(err)
	if !ok || err == nil {
		t.Fatalf("%v is not a status", err)
	}
	return st
}

// wantStatus checks the code, reason and domain of err, and for a REST error also the HTTP status. It returns the
// status.
func wantStatus(t *testing.T, err error, code codes.Code, reason string, http int) *status.Status {
	t.Helper()
	st := statusOf(t, err)
	info, _ := detailOf[*errdetails.ErrorInfo](t, st)
	if st.Code() != code || info.GetReason() != reason || info.GetDomain() != "easel" {
		t.Fatalf("got %v with reason %q and domain %q, want %v with reason %q", err, info.GetReason(), info.GetDomain(), code, reason)
	}
	var rest *restFailure
	if errors.As(err, &rest) && rest.code != http {
		t.Errorf("HTTP %d, want %d", rest.code, http)
	}
	return st
}

// wantFields checks that the error reports exactly the fields in want as invalid. want contains the proto names of the
// fields; over REST, the error must contain their JSON names.
func wantFields(t *testing.T, st *status.Status, want ...string) {
	t.Helper()
	bad, _ := detailOf[*errdetails.BadRequest](t, st)
	var got []string
	for _, v := range bad.GetFieldViolations() {
		got = append(got, v.GetField())
		if v.GetDescription() == "" {
			t.Errorf("%s has no description", v.GetField())
		}
	}
	if strings.Contains(t.Name(), "/REST") {
		want = slices.Clone(want)
		for n, name := range want {
			want[n] = inCamelCase(name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("fields %q, want %q (%v)", got, want, bad)
	}
}

// inCamelCase converts a field path to JSON names. The path of an input stays unchanged.
func inCamelCase(path string) string {
	if strings.HasPrefix(path, "inputs.") {
		return path
	}
	return regexp.MustCompile("_[a-z]").ReplaceAllStringFunc(path, func(s string) string { return strings.ToUpper(s[1:]) })
}

func retryDelay(st *status.Status) time.Duration {
	return service.Detail[*errdetails.RetryInfo](st).GetRetryDelay().AsDuration()
}
