package server_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// outcomeOf returns the order outcome in an error, or "" if the error has no outcome.
func outcomeOf(t *testing.T, st *status.Status) string {
	t.Helper()
	return metadataOf(t, st)["order_outcome"]
}

// metadataOf returns the metadata of the ErrorInfo in a status.
func metadataOf(t *testing.T, st *status.Status) map[string]string {
	t.Helper()
	info, _ := detailOf[*errdetails.ErrorInfo](t, st)
	return info.GetMetadata()
}

const (
	mayExist  = "unknown"
	notPlaced = "not_placed_by_this_call"
)

func TestEveryFailedOrderSaysWhatIsKnownOfIt(t *testing.T) { // fault A10
	t.Parallel()
	limit := int64(0)
	for name, row := range map[string]struct {
		change   func(*easelv1.CreateGenerationRequest)
		fault    sandbox.Fault
		key      func(string) string
		code     codes.Code
		reason   string
		upstream string // the catalog's error code
		want     string
		posts    int
	}{
		"a rule of the contract": {change: func(r *easelv1.CreateGenerationRequest) { r.IdempotencyKey = "" }, code: codes.InvalidArgument, reason: "INVALID_REQUEST", want: notPlaced},
		"a number that would change": {change: func(r *easelv1.CreateGenerationRequest) {
			r.Inputs = inputs(t, map[string]any{"prompt": "x", "seed": 1e17})
		}, code: codes.InvalidArgument, reason: "INVALID_REQUEST", want: notPlaced},

		"no key":            {key: func(string) string { return "" }, code: codes.Unauthenticated, reason: "CREDENTIAL_MISSING", want: notPlaced},
		"above the limit":   {change: func(r *easelv1.CreateGenerationRequest) { r.MaxCostCents = &limit }, code: codes.FailedPrecondition, reason: "PRICE_ABOVE_LIMIT", want: notPlaced},
		"no quote":          {change: func(r *easelv1.CreateGenerationRequest) { r.MaxCostCents = &limit }, fault: sandbox.Fault{Route: "POST /quote", Status: 401}, code: codes.Unauthenticated, reason: "UPSTREAM_CREDENTIAL_REJECTED", want: notPlaced},
		"a wrong API key":   {key: func(string) string { return "wrong" }, code: codes.Unauthenticated, reason: "UPSTREAM_CREDENTIAL_REJECTED", upstream: "UNAUTHORIZED", want: notPlaced, posts: 1},
		"an input":          {change: func(r *easelv1.CreateGenerationRequest) { r.Inputs = inputs(t, map[string]any{"prompt": 7}) }, code: codes.InvalidArgument, reason: "UPSTREAM_INVALID_INPUT", upstream: "INVALID_FIELD", want: notPlaced, posts: 1},
		"no such model":     {change: func(r *easelv1.CreateGenerationRequest) { r.ModelId = "studio/none" }, fault: answer(404, `{"code":"model_not_found"}`), code: codes.NotFound, reason: "MODEL_NOT_FOUND", upstream: "MODEL_NOT_FOUND", want: notPlaced, posts: 1},
		"no money":          {fault: answer(402, `{"code":"no money","message":"no"}`), code: codes.FailedPrecondition, reason: "INSUFFICIENT_BALANCE", want: notPlaced, posts: 1},
		"a proxy's page":    {fault: answer(402, `{}`), code: codes.FailedPrecondition, reason: "INSUFFICIENT_BALANCE", want: mayExist, posts: 1},
		"the key's cap":     {fault: answer(409, `{"code":"API_KEY_DAILY_CAP"}`), code: codes.ResourceExhausted, reason: "API_KEY_DAILY_CAP", upstream: "API_KEY_DAILY_CAP", want: notPlaced, posts: 1},
		"too many requests": {fault: answer(429, `{}`), code: codes.ResourceExhausted, reason: "UPSTREAM_RATE_LIMITED", want: mayExist, posts: 6},
		"a redirect":        {fault: sandbox.Fault{Redirect: "/x", Status: 307}, code: codes.Internal, reason: "UPSTREAM_REDIRECT_REFUSED", want: mayExist, posts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, s *stack, c caller) {
				if row.fault.Status != 0 {
					if row.fault.Route == "" {
						row.fault.Route = "POST /generations"
					}
					s.sandbox.Inject(row.fault)
				}
				if row.key != nil {
					c = withKeyOf(c, row.key(s.key))
				}
				req := order(t, text, "k", "a lake")
				if row.change != nil {
					row.change(req)
				}
				err := c.call(t.Context(), "GenerationService/CreateGeneration", req, &easelv1.CreateGenerationResponse{})
				st := statusOf(t, err)
				if st.Code() != row.code || outcomeOf(t, st) != row.want || !strings.Contains(fmt.Sprint(st.Proto()), row.reason) {
					t.Errorf("got %v and %q, want %v %s and %q", st.Proto(), outcomeOf(t, st), row.code, row.reason, row.want)
				}
				if got := metadataOf(t, st)["upstream_code"]; got != row.upstream {
					t.Errorf("the catalog's code is %q, want %q", got, row.upstream)
				}
				if posts := s.sandbox.Requests()["POST /generations"]; posts != row.posts {
					t.Errorf("%d orders were sent, want %d", posts, row.posts)
				}
			})
		})
	}
}

// sharedStack returns a stack with a shared API key and the named callers. The token of each caller is its name.
func sharedStack(t *testing.T, names []string, change ...func(*options)) *stack {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callers")
	writeCallers(t, file, "", names...)
	return sharedStackFrom(t, file, change...)
}

// writeCallers writes a callers file with the given teams. Each element of callers is a name, optionally followed by other
// fields. The token of each caller is its name.
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
	go func() { // reloads the file periodically, as the program does
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

func TestTwoOwnersWhoChooseOneIdempotencyKeyHaveTwoOrders(t *testing.T) { // fault T1
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

func TestAnonymousCallersAreOneOwner(t *testing.T) { // fault T1
	t.Parallel()
	var s *stack
	held := catalog.Shared(func() catalog.Secret { return catalog.NewSecret(s.key) })
	s = newStack(t, func(o *options) { o.service.Auth.SharedKey, o.service.Auth.AllowAnonymous = &held, true })
	one := create(t, grpcCaller{s, ""}, order(t, text, "k", "a lake"))
	if other := create(t, restCaller{s, ""}, order(t, text, "k", "a lake")); other.GetGenerationId() != one.GetGenerationId() {
		t.Errorf("one key returned %s and %s", one.GetGenerationId(), other.GetGenerationId())
	}
}
