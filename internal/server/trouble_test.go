package server_test

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestASharedKeyThatIsRejectedIsTheOperatorsFault(t *testing.T) { // fault U7
	t.Parallel()
	held, logs := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("sandbox_live_wrong") }), &servertest.Buffer{}
	s := newStack(t, func(o *options) {
		o.service.Auth.SharedKey, o.service.Auth.AllowAnonymous, o.server.Logger = &held, true, slog.New(slog.NewJSONHandler(logs, nil))
	})
	for name, c := range map[string]caller{"gRPC": grpcCaller{s, ""}, "REST": restCaller{s, ""}} {
		t.Run(name, func(t *testing.T) {
			err := c.call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
			wantStatus(t, err, codes.Internal, "UPSTREAM_CREDENTIAL_REJECTED", 500)
		})
	}
	eventually(t, "the log lines of the calls have their caller", func() bool { return strings.Count(logs.String(), `"caller":"anonymous"`) == 2 })
}

func TestAQuoteDoesNotFailForTheBalance(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		s.sandbox.Inject(sandbox.Fault{Route: "GET /me", Status: 500})
		resp := &easelv1.QuoteGenerationResponse{}
		req := order(t, picture, "k", "a lake")
		err := c.call(t.Context(), "GenerationService/QuoteGeneration", &easelv1.QuoteGenerationRequest{ModelId: picture, Inputs: req.GetInputs()}, resp)
		q := resp.GetQuote()
		if err != nil || q.GetPriceCents() == 0 || q.BalanceCents != nil || q.Affordable != nil {
			t.Errorf("%v %v", q, err)
		}
	})
}
