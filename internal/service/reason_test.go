package service

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

// reasonComments returns the comment on each error reason in the contract, as a single line.
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

func TestEachReasonHasTheCodeThatItsCommentSays(t *testing.T) {
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

func TestAReasonThatAsksToComeAgainSaysThatItHelps(t *testing.T) {
	comments := reasonComments(t)
	for _, r := range rules {
		if comment := comments[r.reason.String()]; r.retry && !strings.Contains(comment, " Retryable") {
			t.Errorf("%v has RetryInfo, but its comment is: %s", r.reason, comment)
		}
	}
}

// Each kind of catalog error has a single code, except a rejected API key.
func TestEachErrorOfTheCatalogHasTheCodeOfItsReason(t *testing.T) {
	for kind := catalog.Kind(1); !strings.HasPrefix(kind.String(), "kind("); kind++ {
		r, known := rules[kind]
		if !known {
			t.Errorf("%v has no rule", kind)
		}
		for _, held := range []bool{false, true} {
			st, want := Status(&catalog.Error{Kind: kind, SharedKey: held}), codesOf[r.reason]
			if held && kind == catalog.KindCredentialRejected {
				want = codes.Internal
			}
			if st.Code() != want || Reason(st) != r.reason {
				t.Errorf("%v becomes %v", kind, st.Proto())
			}
		}
	}
}

func TestARefusalByALibraryHasTheNameOfItsCode(t *testing.T) {
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		st, name := Status(status.Error(c, "of a library")), code.Code(c).String()
		reason, known := libraryReasons[c]
		if known && (reason.String() != name || codesOf[reason] != c || Reason(st) != reason || st.Code() != c) {
			t.Errorf("%v becomes %v", c, st.Proto())
		}
		if !known && (Reason(st) != easelv1.ErrorReason_INTERNAL || st.Code() != codes.Internal || strings.Contains(st.Message(), "library")) {
			t.Errorf("the unforeseen code %v becomes %v", c, st.Proto())
		}
		if info := Detail[*errdetails.ErrorInfo](st); info.GetDomain() != domain {
			t.Errorf("%v has the domain %q", c, info.GetDomain())
		}
	}
}
