//go:build go1.25

package easel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestEveryAttemptSendsIdempotencyKeyAndExpireTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expire, attempts := time.Now().Add(time.Hour), 0
		answers := func(err error) func(*easelv1.CreateGenerationRequest) error {
			return func(request *easelv1.CreateGenerationRequest) error {
				if attempts++; request.GetIdempotencyKey() != "k" || !request.GetExpireTime().AsTime().Equal(expire) {
					t.Errorf("attempt %d is %v, want the key and the expire time of the order", attempts, request)
				}
				return err
			}
		}
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{answers(serverError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", "unknown", time.Minute)), answers(nil)}}
		if _, err := serveScript(t, s).Order(t.Context(), easel.Order{Key: "k", Expire: expire}); err != nil || attempts != 2 {
			t.Errorf("got %d attempts and the error %v, want 2 attempts and no error", attempts, err)
		}
	})
}

func TestOrderReportsGeneratedKeyBeforeSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handed, sent := "", ""
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{func(request *easelv1.CreateGenerationRequest) error {
			sent = request.GetIdempotencyKey()
			if handed != sent {
				t.Errorf("OnKey received the key %q, but the order was sent with the key %q", handed, sent)
			}
			return nil
		}}}
		client := serveScript(t, s)
		placed, err := client.Order(t.Context(), easel.Order{OnKey: func(key string) error { handed = key; return nil }})
		if err != nil || placed.Key != sent || len(sent) < 20 {
			t.Errorf("got %+v, %v; want the key that was sent, with at least 20 characters", placed, err)
		}
		full := errors.New("the disk is full")
		_, err = client.Order(t.Context(), easel.Order{OnKey: func(string) error { return full }})
		if !errors.Is(err, full) || len(s.calls) != 1 {
			t.Errorf("%d orders were sent although OnKey failed, or its error was not returned: %v", len(s.calls)-1, err)
		}
	})
}

// If the outcome of one attempt is unknown, only the outcome "not_placed" of a later attempt proves that no order
// exists.
func TestOrderOutcomeCoversAllAttempts(t *testing.T) {
	for name, test := range map[string]struct{ first, last, want string }{
		"nothing sent":             {"not_placed_by_this_call", "not_placed_by_this_call", "not_placed_by_this_call"},
		"unknown, then not sent":   {"unknown", "not_placed_by_this_call", "unknown"},
		"unknown, then not placed": {"unknown", "not_placed", "not_placed"},
		"no outcome":               {"", "", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{creates: createHandlers(
					serverError(codes.Unavailable, "UPSTREAM_UNAVAILABLE", test.first, time.Second),
					serverError(codes.FailedPrecondition, "INSUFFICIENT_BALANCE", test.last, 0),
				)}
				_, err := serveScript(t, s).Order(t.Context(), easel.Order{Key: "k"})
				if money := (*easel.InsufficientBalanceError)(nil); !errors.As(err, &money) || string(money.OrderOutcome) != test.want {
					t.Errorf("got %v; want an InsufficientBalanceError whose order outcome covers both attempts", err)
				}
			})
		})
	}
}

// With the idempotency key in the error, a program can send the order again without the risk of paying twice.
func TestErrorAfterOrderContainsIdempotencyKey(t *testing.T) {
	for name, end := range map[string]func(*easelv1.WatchGenerationRequest, watchStream) error{
		"the watch ends": func(*easelv1.WatchGenerationRequest, watchStream) error {
			return serverError(codes.PermissionDenied, "UPSTREAM_FORBIDDEN", "", 0)
		},
		"the context expires": func(*easelv1.WatchGenerationRequest, watchStream) error {
			return serverError(codes.Unavailable, "UPSTREAM_UNAVAILABLE", "", 0)
		},
		"the render fails": func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
			last := update(easelv1.State_STATE_FAILED, "e1")
			last.GetUpdate().GetGeneration().Terminal = true
			return sendAll(stream, last)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					creates: createHandlers(nil),
					watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{end},
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				made := ""
				retries := easel.WithRetryHook(func(r easel.Retry) {
					if r.IdempotencyKey != made || r.GenerationID != "gen_1" {
						t.Errorf("the retry hook received %+v; want the key and the ID gen_1", r)
					}
				})
				_, err := serveScript(t, s, retries).Run(ctx, easel.Order{OnKey: func(key string) error { made = key; return nil }})
				base := &easel.Error{}
				if !errors.As(err, &base) || made == "" || base.IdempotencyKey != made || base.GenerationID != "gen_1" || !strings.Contains(err.Error(), "the order exists as gen_1") {
					t.Errorf("the error does not contain the key %s, or does not report that the order exists: %v", made, err)
				}
			})
		})
	}
}

func TestClientDoesNotWaitForImplausibleRetryDelay(t *testing.T) {
	for name, test := range map[string]struct{ delay, kept time.Duration }{
		"very long": {10000 * time.Hour, 10000 * time.Hour},
		"negative":  {-time.Second, 0}, // a negative delay means no delay
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{creates: createHandlers(serverError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", "unknown", test.delay))}
				_, err := serveScript(t, s).Order(t.Context(), easel.Order{Key: "k"})
				unknown := (*easel.OutcomeUnknownError)(nil)
				if !errors.As(err, &unknown) || unknown.RetryAfter != test.kept || unknown.IdempotencyKey != "k" || unknown.OrderOutcome != easel.OutcomeUnknown || len(s.calls) != 1 {
					t.Errorf("got %d calls, want 1, and an OutcomeUnknownError with the delay and the key; the error is %v", len(s.calls), err)
				}
			})
		})
	}
}
