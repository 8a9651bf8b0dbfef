package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestAnOrderExpires(t *testing.T) { // fault M16
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		place := func(key string, left time.Duration) error {
			req := order(t, text, key, "a lake")
			req.ExpireTime = timestamppb.New(time.Now().Add(left))
			return as("poster").call(t.Context(), "GenerationService/CreateGeneration", req, &easelv1.CreateGenerationResponse{})
		}
		for _, left := range []time.Duration{-time.Second, -100 * 365 * 24 * time.Hour} { // the second time is before 1970
			st := wantStatus(t, place("past", left), codes.FailedPrecondition, "ORDER_EXPIRED", http.StatusBadRequest)
			if !strings.HasPrefix(outcomeOf(t, st), "not_placed") || !strings.Contains(st.Message(), "ordered nothing") && !strings.Contains(st.Message(), "nothing was ordered") {
				t.Errorf("the outcome is %q, and the message %q", outcomeOf(t, st), st.Message())
			}
		}
		if err := place("placed", time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := place("placed", -time.Second); err != nil { // only the first request's expire time counts
			t.Errorf("the repeated request of a placed order: %v", err)
		}
		s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusServiceUnavailable})
		wantUnknown := func(err error) {
			t.Helper()
			st := wantStatus(t, err, codes.FailedPrecondition, "ORDER_EXPIRED", http.StatusBadRequest)
			if _, retry := detailOf[*errdetails.RetryInfo](t, st); retry || outcomeOf(t, st) != mayExist {
				t.Errorf("the outcome is %q, with RetryInfo: %v", outcomeOf(t, st), retry)
			}
		}
		wantUnknown(place("k", 2*time.Second)) // attempts fail until the expire time
		s.sandbox.ClearFaults()
		posts := s.sandbox.Requests()["POST /generations"]
		wantUnknown(place("k", time.Hour)) // only the first request's expire time counts
		if again := s.sandbox.Requests()["POST /generations"]; again != posts {
			t.Errorf("%d attempts were sent after the expire time", again-posts)
		}
	})
}
