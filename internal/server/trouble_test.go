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

func TestEveryDialectIsOrderedAndWatchedThroughTheWholeStack(t *testing.T) {
	t.Parallel()
	for _, dialect := range sandbox.Dialects() {
		t.Run(dialect.Name, func(t *testing.T) {
			s := newStack(t, func(o *options) { o.sandbox.Dialect = dialect })
			c := grpcCaller{s, s.key}
			lost := s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Reset: true})
			g := create(t, c, order(t, text, "k", "a lake"))
			end := last(t, watched(t, c, &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()}))
			if end.GetState() != easelv1.State_STATE_SUCCEEDED || end.GetText().GetText() == "" {
				t.Errorf("ended as %v", end)
			}
			if n := s.audit().ChargesByIdempotencyKey["k"]; n != 1 || lost.Fired() != 1 {
				t.Errorf("%d charges after %d lost answers", n, lost.Fired())
			}
		})
	}
}
