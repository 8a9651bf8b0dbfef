package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// outcomeOf returns the order outcome in the ErrorInfo of st, or "" if the ErrorInfo has no outcome.
func outcomeOf(t *testing.T, st *status.Status) string {
	t.Helper()
	return metadataOf(t, st)["order_outcome"]
}

// metadataOf returns the metadata of the ErrorInfo in st.
func metadataOf(t *testing.T, st *status.Status) map[string]string {
	t.Helper()
	info, _ := detailOf[*errdetails.ErrorInfo](t, st)
	return info.GetMetadata()
}

const (
	mayExist  = "unknown"
	notPlaced = "not_placed_by_this_call"
)

// This test covers orders that Easel rejects. Orders that the catalog rejects are in errorTable.
func TestOrderRejectedByServerIsNotSentToCatalog(t *testing.T) {
	t.Parallel()
	limited := func(r *easelv1.CreateGenerationRequest) { r.MaxCostCents = new(int64(0)) }
	for name, row := range map[string]struct {
		change func(*easelv1.CreateGenerationRequest)
		fault  sandbox.Fault
		code   codes.Code
		reason string
		http   int
	}{
		"no idempotency key": {change: func(r *easelv1.CreateGenerationRequest) { r.IdempotencyKey = "" }, code: codes.InvalidArgument, reason: "INVALID_REQUEST", http: 400},
		"an integer above 2^53": {change: func(r *easelv1.CreateGenerationRequest) {
			r.Inputs = inputs(t, map[string]any{"prompt": "x", "seed": 1e17})
		}, code: codes.InvalidArgument, reason: "INVALID_REQUEST", http: 400},
		"no API key":            {code: codes.Unauthenticated, reason: "CREDENTIAL_MISSING", http: 401},
		"price above the limit": {change: limited, code: codes.FailedPrecondition, reason: "PRICE_ABOVE_LIMIT", http: 400},
		"rejected quote":        {change: limited, fault: sandbox.Fault{Route: "POST /quote", Status: 401}, code: codes.Unauthenticated, reason: "UPSTREAM_CREDENTIAL_REJECTED", http: 401},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, s *stack, c caller) {
				if row.fault.Status != 0 {
					s.sandbox.Inject(row.fault)
				}
				if row.reason == "CREDENTIAL_MISSING" {
					c = withKeyOf(c, "")
				}
				req := order(t, text, "k", "a lake")
				if row.change != nil {
					row.change(req)
				}
				err := c.call(t.Context(), "GenerationService/CreateGeneration", req, &easelv1.CreateGenerationResponse{})
				st := wantStatus(t, err, row.code, row.reason, row.http)
				if m := metadataOf(t, st); row.reason == "PRICE_ABOVE_LIMIT" && (m["max_cost_cents"] != "0" || m["price_cents"] == "" ||
					!strings.Contains(st.Message(), "price of "+m["price_cents"]+" cents exceeds max_cost_cents 0")) {
					t.Errorf("%q has the metadata %v", st.Message(), m)
				}
				if posts := s.sandbox.Requests()["POST /generations"]; posts != 0 || outcomeOf(t, st) != notPlaced {
					t.Errorf("%d orders were sent, and the outcome is %q", posts, outcomeOf(t, st))
				}
			})
		})
	}
}

// The call has no deadline, so Easel itself must stop resending the order.
func TestThrottledOrderHasUnknownOutcome(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusTooManyRequests, Body: `{}`})
		err := c.call(t.Context(), "GenerationService/CreateGeneration", order(t, text, "k", "a lake"), &easelv1.CreateGenerationResponse{})
		st := wantStatus(t, err, codes.ResourceExhausted, "UPSTREAM_RATE_LIMITED", http.StatusTooManyRequests)
		if outcomeOf(t, st) != mayExist {
			t.Errorf("the outcome is %q, want %q", outcomeOf(t, st), mayExist)
		}
		if posts := s.sandbox.Requests()["POST /generations"]; posts < 2 || posts > 6 {
			t.Errorf("the order was sent %d times, want 2 to 6", posts)
		}
	})
}

// sharedStack returns a stack with a shared API key and the named callers. The token of each caller is its name.
func sharedStack(t *testing.T, names []string, change ...func(*options)) *stack {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callers")
	writeCallers(t, file, "", names...)
	return sharedStackFrom(t, file, change...)
}

// writeCallers writes a callers file with the given teams. Each element of callers is a name, optionally followed by a
// comma and other YAML fields. The token of each caller is its name.
func writeCallers(t *testing.T, file, teams string, callers ...string) {
	t.Helper()
	lines := "teams: {" + teams + "}\ncallers:\n"
	for _, caller := range callers {
		name, _, _ := strings.Cut(caller, ",")
		lines += fmt.Sprintf("  - {name: %s, tokens: [%s]}\n", caller, auth.Hash(name))
	}
	writeText(t, file, lines)
}

// sharedStackFrom returns a stack with a shared API key and the callers from a file.
func sharedStackFrom(t *testing.T, file string, change ...func(*options)) *stack {
	t.Helper()
	callers, err := auth.LoadCallers(file, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // reloads the callers file periodically, as the program does
		for tick := time.NewTicker(reload.Interval); ; {
			select {
			case <-tick.C:
				callers.Reload()
			case <-t.Context().Done():
				return
			}
		}
	}()
	callers.ReadKeys(t.Context())
	go callers.FollowKeys(t.Context())
	var s *stack
	held := catalog.Shared(func() catalog.Secret { return catalog.NewSecret(s.key) })
	s = newStack(t, append(change, func(o *options) { o.service.Auth.SharedKey, o.service.Auth.Callers = &held, callers })...)
	return s
}

func TestTwoOwnersCanUseSameIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := sharedStack(t, []string{"shop", "blog"})
	shop := create(t, grpcCaller{s, "shop"}, order(t, text, "monday", "a lake"))
	blog := create(t, grpcCaller{s, "blog"}, order(t, text, "monday", "a hill"))
	if shop.GetGenerationId() == blog.GetGenerationId() {
		t.Error("the second owner got the order of the first")
	}
	for _, c := range []caller{grpcCaller{s, "shop"}, restCaller{s, "shop"}} {
		if again := create(t, c, order(t, text, "monday", "a lake")); again.GetGenerationId() != shop.GetGenerationId() {
			t.Errorf("the first owner's key returned %s, then %s", shop.GetGenerationId(), again.GetGenerationId())
		}
	}
	audit := s.audit()
	if len(audit.ChargesByIdempotencyKey) != 2 || audit.ChargesByIdempotencyKey["monday"] != 0 {
		t.Errorf("the catalog received the keys %v", audit.ChargesByIdempotencyKey)
	}
	// The error must not reveal another owner's order.
	err := grpcCaller{s, "blog"}.call(t.Context(), "GenerationService/CreateGeneration", order(t, text, "monday", "a lake"), &easelv1.CreateGenerationResponse{})
	wantStatus(t, err, codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED", 409)
}

func TestAnonymousCallersAreOneOwner(t *testing.T) {
	t.Parallel()
	var s *stack
	held := catalog.Shared(func() catalog.Secret { return catalog.NewSecret(s.key) })
	s = newStack(t, func(o *options) { o.service.Auth.SharedKey, o.service.Auth.AllowAnonymous = &held, true })
	one := create(t, grpcCaller{s, ""}, order(t, text, "k", "a lake"))
	if other := create(t, restCaller{s, ""}, order(t, text, "k", "a lake")); other.GetGenerationId() != one.GetGenerationId() {
		t.Errorf("the same key returned %s and %s", one.GetGenerationId(), other.GetGenerationId())
	}
}

func TestOrderIsNotSentAfterItsExpireTime(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		place := func(key string, left time.Duration) error {
			req := order(t, text, key, "a lake")
			req.ExpireTime = timestamppb.New(time.Now().Add(left))
			return as("poster").call(t.Context(), "GenerationService/CreateGeneration", req, &easelv1.CreateGenerationResponse{})
		}
		for _, left := range []time.Duration{-time.Second, -100 * 365 * 24 * time.Hour} { // the second expire time is before 1970
			st := wantStatus(t, place("past", left), codes.FailedPrecondition, "ORDER_EXPIRED", http.StatusBadRequest)
			if !strings.HasPrefix(outcomeOf(t, st), "not_placed") || !strings.Contains(st.Message(), "ordered nothing") && !strings.Contains(st.Message(), "nothing was ordered") {
				t.Errorf("the outcome is %q, and the message %q", outcomeOf(t, st), st.Message())
			}
		}
		if err := place("placed", time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := place("placed", -time.Second); err != nil { // the order keeps the expire time of its first request
			t.Errorf("repeating a placed order returned %v", err)
		}
		s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusServiceUnavailable})
		wantUnknown := func(err error) {
			t.Helper()
			st := wantStatus(t, err, codes.FailedPrecondition, "ORDER_EXPIRED", http.StatusBadRequest)
			if _, retry := detailOf[*errdetails.RetryInfo](t, st); retry || outcomeOf(t, st) != mayExist {
				t.Errorf("the outcome is %q, with RetryInfo: %v", outcomeOf(t, st), retry)
			}
		}
		wantUnknown(place("k", 2*time.Second)) // all attempts fail until the order has expired
		s.sandbox.ClearFaults()
		posts := s.sandbox.Requests()["POST /generations"]
		wantUnknown(place("k", time.Hour)) // the order keeps the expire time of its first request
		if again := s.sandbox.Requests()["POST /generations"]; again != posts {
			t.Errorf("%d attempts were sent after the expire time", again-posts)
		}
	})
}
