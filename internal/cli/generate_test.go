package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// orders is a scripted server for orders. It rejects the first order with the first element of errors, the second order
// with the second element, and so on, and accepts all later orders.
type orders struct {
	mu     sync.Mutex
	errors []error
	got    []*easelv1.CreateGenerationRequest
	at     []time.Time
}

// errHangs, as an element of orders.errors, makes the server receive an order without responding to it.
var errHangs = errors.New("no answer comes")

func (o *orders) serve(t *testing.T) dialer {
	return (&scripted{
		model: func(*easelv1.GetModelRequest) (*easelv1.Model, error) { return describedModel(), nil },
		create: func(r *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.got, o.at = append(o.got, r), append(o.at, time.Now())
			if len(o.errors) > 0 {
				err := o.errors[0]
				o.errors = o.errors[1:]
				if errors.Is(err, errHangs) {
					<-t.Context().Done()
				}
				return nil, err
			}
			return render("gen_1", queued), nil
		},
		watch: func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
			g := render("gen_1", succeeded)
			g.Result = &easelv1.Generation_Text{Text: &easelv1.TextResult{Text: "grey water\nasks"}}
			return sendRender(s, g)
		},
	}).serve(t)
}

func TestOrderWithUnknownOutcomeIsResentUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orders{errors: []error{
			serverError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", retryAfter(2*time.Second)),
			serverError(codes.Aborted, "SUBMISSION_IN_PROGRESS", retryAfter(3*time.Second)),
		}}
		got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "prompt=x", "seed=9007199254740993", "--max-cost", "0.50", "-q")
		if got.exit != ExitOK || got.stdout != "gen_1\n" || len(o.got) != 3 {
			t.Fatalf("exit %d after %d orders\n%s%s", got.exit, len(o.got), got.stdout, got.stderr)
		}
		for _, r := range o.got {
			if !proto.Equal(r, o.got[0]) {
				t.Errorf("two attempts differ:\n%v\n%v", r, o.got[0])
			}
		}
		if r := o.got[0]; r.InputsJson != `{"prompt":"x","seed":9007199254740993}` || r.GetMaxCostCents() != 50 || len(r.IdempotencyKey) < 20 {
			t.Errorf("the order is %v", r)
		}
		if first := linesOf(got.stderr)[0]; !strings.Contains(first, o.got[0].IdempotencyKey) {
			t.Errorf("the key is not printed first: %q", first)
		}
		if wait := o.at[1].Sub(o.at[0]); wait < 2*time.Second || wait > 3*time.Second {
			t.Errorf("the second attempt followed after %v, but the server requested 2s", wait)
		}
	})
}

func TestOrderCarriesGivenIdempotencyKey(t *testing.T) {
	o := &orders{}
	got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "--idempotency-key", "mine")
	if got.exit != ExitOK || o.got[0].IdempotencyKey != "mine" || o.got[0].InputsJson != "{}" || o.got[0].MaxCostCents != nil {
		t.Errorf("exit %d, order %v", got.exit, o.got)
	}
	if got.stderr != "continue with: easel watch gen_1\n" {
		t.Errorf("the output repeats a known key, or lacks the next step:\n%s", got.stderr)
	}
	if got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "--idempotency-key", "mine", "-q"); got.stderr != "" {
		t.Errorf("-q prints %s", got.stderr)
	}
}

func TestAnOrderExpiresAfterTheGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, expire := range []string{"10m", "0h10m", time.Now().Add(10 * time.Minute).Format(time.RFC3339)} {
			o, began := &orders{}, time.Now()
			got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "--idempotency-key", "mine", "--expire", expire)
			if got.exit != ExitOK || len(o.got) != 1 {
				t.Fatalf("%s: exit %d, orders %v\n%s", expire, got.exit, o.got, got.stderr)
			}
			if left := o.got[0].GetExpireTime().AsTime().Sub(began); left < 9*time.Minute || left > 11*time.Minute {
				t.Errorf("%s: the order expires after %v", expire, left)
			}
		}
	})
}

func TestInvalidExpireTimeIsRejectedBeforeOrdering(t *testing.T) {
	for _, words := range []string{"-1s", "0s", "=-1s", "=", "tomorrow", "10", "1d", "2020-01-31T12:00:00Z", "2027-01-31", "--watch"} {
		o, flag := &orders{}, []string{"--expire", words}
		if strings.HasPrefix(words, "=") {
			flag = []string{"--expire" + words}
		}
		got := easelRun(t.Context(), o.serve(t), append([]string{"generate", "studio/any"}, flag...)...)
		want := "easel: --expire: \"" + strings.TrimPrefix(words, "=") + "\" must be a positive duration such as 10m or 2h30m, or a future time such as 2027-01-31T12:00:00Z\n"
		if got.exit != ExitUsage || len(o.got) != 0 || linesOf(got.stderr)[0]+"\n" != want {
			t.Errorf("%s: exit %d after %d orders\n%s", words, got.exit, len(o.got), got.stderr)
		}
	}
}

func TestTimedOutGenerateCommandPrintsIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orders{}
		for range 99 {
			o.errors = append(o.errors, serverError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", retryAfter(time.Second)))
		}
		began := time.Now()
		got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "--timeout", "10s")
		if got.exit != ExitRetry || !strings.Contains(got.stderr, "--idempotency-key "+o.got[0].IdempotencyKey) {
			t.Errorf("exit %d\n%s", got.exit, got.stderr)
		}
		if took := time.Since(began); took > 10*time.Second || len(o.got) < 3 {
			t.Errorf("stopped after %v and %d attempts", took, len(o.got))
		}
	})
}

func TestNotOrderedMessageRequiresDefiniteRejection(t *testing.T) {
	refused := unsentError(codes.FailedPrecondition, "INSUFFICIENT_BALANCE")
	unknown := serverError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", retryAfter(time.Second))
	away := unsentError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", retryAfter(time.Second))
	mine := []string{"--idempotency-key", "mine"}
	for name, test := range map[string]struct {
		errors []error
		flags  []string
		want   bool
	}{
		"insufficient balance":                          {[]error{refused}, nil, true},
		"invalid input":                                 {[]error{unsentError(codes.InvalidArgument, "UPSTREAM_INVALID_INPUT")}, nil, true},
		"rejected API key":                              {[]error{unsentError(codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED")}, nil, true},
		"overloaded server":                             {slices.Repeat([]error{unsentError(codes.ResourceExhausted, "OVERLOADED", retryAfter(time.Second))}, 9), []string{"--timeout", "3300ms"}, true},
		"unknown outcome, then insufficient balance":    {[]error{unknown, refused}, nil, false},
		"insufficient balance with --idempotency-key":   {[]error{refused}, []string{"--idempotency-key", "mine"}, false},
		"unknown outcome":                               {[]error{unknown, unknown, unknown}, []string{"--timeout", "2300ms"}, false},
		"internal error":                                {slices.Repeat([]error{serverError(codes.Internal, "INTERNAL")}, 9), []string{"--timeout", "3300ms"}, false},
		"idempotency key used for another order":        {[]error{serverError(codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED")}, nil, false},
		"order not sent":                                {[]error{away, away, away}, []string{"--timeout", "2300ms"}, true},
		"unknown outcome, then order not sent":          {[]error{unknown, away, away}, []string{"--timeout", "2300ms"}, false},
		"price above the limit":                         {[]error{unsentError(codes.FailedPrecondition, "PRICE_ABOVE_LIMIT")}, nil, true},
		"price above the limit with --idempotency-key":  {[]error{unsentError(codes.FailedPrecondition, "PRICE_ABOVE_LIMIT")}, mine, false},
		"order not sent with --idempotency-key":         {[]error{away, away, away}, append(mine, "--timeout", "2300ms"), false},
		"invalid input with --idempotency-key":          {nil, append(mine, "seed=many"), false},
		"exceeded budget":                               {[]error{notPlaced(codes.ResourceExhausted, "BUDGET_EXCEEDED")}, nil, true},
		"exceeded budget with --idempotency-key":        {[]error{notPlaced(codes.ResourceExhausted, "BUDGET_EXCEEDED")}, mine, true},
		"unknown outcome, then rejection in the ledger": {[]error{unknown, notPlaced(codes.FailedPrecondition, "INSUFFICIENT_BALANCE")}, mine, true},
		"expired order with --idempotency-key":          {[]error{notPlaced(codes.FailedPrecondition, "ORDER_EXPIRED")}, mine, true},
		"unavailable ledger":                            {[]error{away, unsentError(codes.Unavailable, "LEDGER_UNAVAILABLE"), away}, append(mine, "--timeout", "2300ms"), false},
		"order not placed, then no response":            {[]error{notPlaced(codes.Unavailable, "UPSTREAM_UNAVAILABLE"), errHangs}, []string{"--timeout", "9s"}, false},
		"error without a reason":                        {[]error{status.Error(codes.InvalidArgument, "it failed")}, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &orders{errors: test.errors}
			got := easelRun(t.Context(), o.serve(t), append([]string{"generate", "studio/any"}, test.flags...)...)
			if got.exit == ExitOK || strings.Contains(got.stderr, nothingOrdered) != test.want {
				t.Errorf("%s: exit %d\n%s", name, got.exit, got.stderr)
			}
		})
	}
}

// If the failed order may have been placed, the printed advice must be a way to find or repeat that order, never to
// place a second one.
func TestErrorAdviceNeverLeadsToSecondOrder(t *testing.T) {
	refused := serverError(codes.FailedPrecondition, "INSUFFICIENT_BALANCE")
	for name, test := range map[string]struct {
		errors []error
		flags  []string
		want   string
	}{
		"insufficient balance":                    {[]error{refused}, nil, "Send it again with --idempotency-key mine"},
		"rejected API key":                        {[]error{serverError(codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED")}, nil, "Send it again with --idempotency-key mine"},
		"daily cap of the API key":                {[]error{serverError(codes.ResourceExhausted, "API_KEY_DAILY_CAP")}, nil, "Send it again with --idempotency-key mine"},
		"too late to resend":                      {[]error{serverError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN")}, nil, neverResent("mine")},
		"expired after an attempt":                {[]error{serverError(codes.FailedPrecondition, "ORDER_EXPIRED")}, nil, neverResent("mine")},
		"expired without an attempt by this call": {[]error{unsentError(codes.FailedPrecondition, "ORDER_EXPIRED")}, nil, nothingSent + " Run the command again with --idempotency-key mine and a later --expire."},
		"price above the limit":                   {[]error{unsentError(codes.FailedPrecondition, "PRICE_ABOVE_LIMIT")}, nil, nothingSent},
		"idempotency key used for another order":  {[]error{unsentError(codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED")}, nil, nothingSent},
		"invalid input":                           {nil, []string{"seed=many"}, nothingSent},
		"existing output file":                    {nil, []string{"--out", "generate_test.go"}, nothingSent},
	} {
		for _, form := range []string{"table", "json"} {
			got := easelRun(t.Context(), (&orders{errors: test.errors}).serve(t),
				append([]string{"generate", "studio/any", "--idempotency-key", "mine", "-o", form}, test.flags...)...)
			if got.exit == ExitOK || !strings.Contains(got.stderr, test.want) {
				t.Errorf("%s: exit %d, and %q is not in\n%s", name, got.exit, test.want, got.stderr)
			}
			for _, wrong := range []string{nothingOrdered, "cheaper", "nother key", "new key", "Check EASEL_API_KEY"} {
				if strings.Contains(got.stderr+got.stdout, wrong) {
					t.Errorf("%s: the output contains %q:\n%s%s", name, wrong, got.stdout, got.stderr)
				}
			}
		}
	}
}

func TestExpirationErrorSuggestsLaterExpireTime(t *testing.T) {
	for _, err := range []error{notPlaced(codes.FailedPrecondition, "ORDER_EXPIRED"), unsentError(codes.FailedPrecondition, "ORDER_EXPIRED")} {
		got := easelRun(t.Context(), (&orders{errors: []error{err}}).serve(t), "generate", "studio/any")
		if !strings.Contains(got.stderr, "       Nothing was ordered. Order again with a later --expire, or without it.\n") {
			t.Errorf("printed\n%s", got.stderr)
		}
	}
}

func TestJSONErrorStatesOrderOutcome(t *testing.T) {
	unknown := serverError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", retryAfter(time.Second))
	for name, test := range map[string]struct {
		errors []error
		want   string
	}{
		"an earlier attempt may have placed the order":      {[]error{unknown, unsentError(codes.FailedPrecondition, "INSUFFICIENT_BALANCE")}, "unknown"},
		"the ledger knows that no attempt placed the order": {[]error{unknown, notPlaced(codes.FailedPrecondition, "INSUFFICIENT_BALANCE")}, "not_placed"},
		"an error without details":                          {[]error{status.Error(codes.InvalidArgument, "it failed")}, "unknown"},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := easelRun(t.Context(), (&orders{errors: test.errors}).serve(t), "generate", "studio/any", "-o", "json")
			var printed struct{ Error failure }
			lines := linesOf(got.stderr)
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &printed); err != nil {
				t.Fatal(err)
			}
			if e := printed.Error; e.Metadata["order_outcome"] != test.want || strings.Contains(e.Cure, nothingOrdered) != (test.want == "not_placed") {
				t.Errorf("%s: printed %s", name, got.stderr)
			}
		})
	}
}

func TestInvalidFlagsPlaceNoOrder(t *testing.T) {
	for _, test := range []struct{ words, want string }{
		{"--idempotency-key ", "--idempotency-key is empty"},
		{"--idempotency-key=", "--idempotency-key is empty"},
		{"--out ", "--out is empty"},
		{"--inputs-json ", "--inputs-json is empty"},
		{"prompt=x --watch seed=7", "seed=7"}, // a flag between two inputs is a usage error
	} {
		o := &orders{}
		got := easelRun(t.Context(), o.serve(t), append([]string{"generate", "studio/any"}, strings.Split(test.words, " ")...)...)
		if got.exit != ExitUsage || len(o.got) != 0 || !strings.Contains(got.stderr, test.want) {
			t.Errorf("%s: exit %d after %d orders\n%s", test.words, got.exit, len(o.got), got.stderr)
		}
	}
}

func TestInvalidAddressAndAPIKeyOverPlaintextAreRejected(t *testing.T) {
	for _, args := range [][]string{{"--addr", "easel"}, {"--addr", "ftp://easel:1"}, {"--addr", "http://easel:1", "--tls-ca-file", "generate_test.go"}} {
		if got := easelRun(t.Context(), nil, append([]string{"models"}, args...)...); got.exit != ExitUsage || !strings.Contains(got.stderr, "--") {
			t.Errorf("%q: exit %d\n%s", args, got.exit, got.stderr)
		}
	}
	key := map[string]string{"EASEL_API_KEY": "hunter2"}
	if got := easelEnv(t.Context(), nil, key, "models", "--addr", "http://easel.example:1"); got.exit != ExitUsage || !strings.Contains(got.stderr, "without TLS") || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("a key over a plaintext connection: exit %d\n%s", got.exit, got.stderr)
	}
}

func TestInterruptedGenerateCommandPrintsIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		o := &orders{errors: []error{serverError(codes.Unavailable, "", retryAfter(time.Minute))}}
		time.AfterFunc(time.Second, interrupt)
		got := easelRun(ctx, o.serve(t), "generate", "studio/any")
		if got.exit != ExitInterrupted || !strings.Contains(got.stderr, "--idempotency-key "+o.got[0].IdempotencyKey) {
			t.Errorf("exit %d\n%s", got.exit, got.stderr)
		}
	})
}

func TestGenerateCommandWritesTextResult(t *testing.T) {
	o := &orders{}
	dial := o.serve(t)
	if got := easelRun(t.Context(), dial, "generate", "studio/any", "--watch", "-q"); got.stdout != "grey water\nasks\n" {
		t.Errorf("printed %q, want only the text", got.stdout)
	}
	path := filepath.Join(t.TempDir(), "poem.txt")
	got := easelRun(t.Context(), dial, "generate", "studio/any", "--out", path, "-q")
	if text, err := os.ReadFile(path); err != nil || string(text) != "grey water\nasks\n" || got.stdout != path+"\n" {
		t.Errorf("the file contains %q, %v; printed %q", text, err, got.stdout)
	}
	if got := easelRun(t.Context(), dial, "generate", "studio/any", "--out", "-"); got.exit != ExitOK || got.stdout != "grey water\nasks\n" {
		t.Errorf("--out -: printed %q, exit %d\n%s", got.stdout, got.exit, got.stderr)
	}
}
