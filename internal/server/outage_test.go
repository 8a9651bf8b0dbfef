package server_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

// A watch can be opened while the catalog is unavailable or has asked Easel to pause. Clients depend on this when they
// reopen a watch that has reached its maximum age.
func TestWatchCanBeOpenedDuringCatalogOutage(t *testing.T) {
	for name, row := range map[string]struct {
		fault     sandbox.Fault
		condition easelv1.UpstreamCondition // expected condition in the heartbeats of an open watch
	}{
		"unavailable":  {sandbox.Fault{Status: 503}, easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE},
		"hanging":      {sandbox.Fault{Hang: true}, easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE},
		"rate limited": {sandbox.Fault{Status: 429, Header: map[string]string{"Retry-After": "120"}}, easelv1.UpstreamCondition_UPSTREAM_CONDITION_THROTTLED},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, s *stack, c caller) {
				id := create(t, c, order(t, text, "k", "a lake")).GetGenerationId()
				begins := func(c caller) error {
					ctx, leave := context.WithTimeout(t.Context(), time.Minute)
					defer leave()
					told := false
					err := c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: id}, func(*easelv1.WatchGenerationResponse) { told = true; leave() })
					if told {
						return nil
					}
					return err
				}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				latest := atomic.Pointer[easelv1.Heartbeat]{}
				go func() {
					_ = c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: id}, func(m *easelv1.WatchGenerationResponse) { latest.Store(m.GetHeartbeat()) })
				}()
				away := s.sandbox.Inject(row.fault)
				for _, passed := range []time.Duration{10 * time.Second, 5 * time.Minute, 45 * time.Minute} {
					time.Sleep(passed)
					began := time.Now()
					if err := begins(c); err != nil {
						t.Errorf("after %v, opening a watch failed: %v", passed, err)
					}
					if took := time.Since(began); took > 2*time.Second {
						t.Errorf("opening a watch took %v, want at most 2 s", took)
					}
				}
				if h := latest.Load(); h.GetUpstreamCondition() != row.condition || h.GetConsecutivePollFailures() == 0 || h.GetLastError() == "" {
					t.Errorf("the open watch received the heartbeat %v", h)
				}
				away.Remove()
				rejected := s.sandbox.Inject(sandbox.Fault{Status: 401})
				defer rejected.Remove()
				time.Sleep(10 * time.Minute)
				_ = begins(c)
				servertest.WantError(t, begins(c), codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED")
			}, func(o *options) { o.sandbox.Speed = 0.0001 })
		})
	}
}

func TestRejectedSharedKeyIsReportedAsInternalError(t *testing.T) {
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

func TestQuoteSucceedsWhenBalanceIsUnavailable(t *testing.T) {
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
