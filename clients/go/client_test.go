//go:build go1.25

package easel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestOrderRetriesWithTheSameKeyUntilTheOutcomeIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		answers := func(err error) func(*easelv1.CreateGenerationRequest) error {
			return func(request *easelv1.CreateGenerationRequest) error {
				keys = append(keys, request.GetIdempotencyKey())
				return err
			}
		}
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{
			answers(status.Error(codes.Unavailable, "a proxy's")),
			answers(failed(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", "unknown", time.Minute)),
			answers(failed(codes.Aborted, "SUBMISSION_IN_PROGRESS", "unknown", time.Second)),
			answers(failed(codes.Unavailable, "A_NEWER_ONE", "unknown", 0)),
			answers(nil),
		}}
		render, err := play(t, s).Order(t.Context(), easel.Order{Key: "k"})
		if err != nil || render.GenerationID != "gen_1" {
			t.Fatal(render, err)
		}
		if got := fmt.Sprint(keys); got != "[k k k k k]" {
			t.Errorf("the attempts had the keys %s, want k five times", got)
		}
		if waited := s.calls[2].Sub(s.calls[1]); waited < time.Minute || waited > 2*time.Minute {
			t.Errorf("the client waited %s, want between 1 and 2 minutes, because the server requested a minute", waited)
		}
	})
}

func TestOrderStopsIfARetryCannotHelp(t *testing.T) {
	for reason, test := range map[string]struct {
		code    codes.Code
		outcome easel.Outcome
	}{
		"BUDGET_EXCEEDED":              {codes.ResourceExhausted, easel.OutcomeNotPlaced},
		"SUBMISSION_OUTCOME_UNKNOWN":   {codes.Unavailable, easel.OutcomeUnknown}, // the error has no RetryInfo, because no time is left for a retry
		"PRICE_ABOVE_LIMIT":            {codes.FailedPrecondition, easel.OutcomeNotPlacedByThisCall},
		"ORDER_EXPIRED":                {codes.FailedPrecondition, easel.OutcomeUnknown},
		"UPSTREAM_CREDENTIAL_REJECTED": {codes.Unauthenticated, easel.OutcomeUnknown},
		"UPSTREAM_REDIRECT_REFUSED":    {codes.Internal, easel.OutcomeUnknown},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{
					func(*easelv1.CreateGenerationRequest) error {
						return failed(test.code, reason, string(test.outcome), 0)
					},
				}}
				_, err := play(t, s).Order(t.Context(), easel.Order{Key: "k"})
				err = fmt.Errorf("as callers do: %w", err)
				base := &easel.Error{}
				if !errors.As(err, &base) || len(s.calls) != 1 || easel.ReasonOf(err) != reason || base.OrderOutcome != test.outcome || base.IdempotencyKey != "k" {
					t.Errorf("got %d calls, want 1, and an error with the reason, the outcome and the key; the error is %+v: %v", len(s.calls), base, err)
				}
			})
		})
	}
}

func TestOrderSendsItsExpireTimeWithEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expire, attempts := time.Now().Add(time.Hour), 0
		answers := func(err error) func(*easelv1.CreateGenerationRequest) error {
			return func(request *easelv1.CreateGenerationRequest) error {
				if attempts++; !request.GetExpireTime().AsTime().Equal(expire) {
					t.Errorf("attempt %d has the expire time %v, want the time in the order", attempts, request.GetExpireTime())
				}
				return err
			}
		}
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{answers(failed(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", "unknown", time.Minute)), answers(nil)}}
		if _, err := play(t, s).Order(t.Context(), easel.Order{Key: "k", Expire: expire}); err != nil || attempts != 2 {
			t.Errorf("got %d attempts, want 2, and %v", attempts, err)
		}
	})
}

func TestOrderPassesANewKeyToOnKeyBeforeSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handed, sent := "", ""
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{func(request *easelv1.CreateGenerationRequest) error {
			sent = request.GetIdempotencyKey()
			if handed != sent {
				t.Errorf("OnKey received the key %q, but the order was sent with the key %q", handed, sent)
			}
			return nil
		}}}
		client := play(t, s)
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

// After an attempt whose outcome is unknown, only the outcome "not_placed" proves that no order exists.
func TestOrderOutcomeCoversAllAttempts(t *testing.T) {
	for name, test := range map[string]struct{ first, last, want string }{
		"nothing sent":              {"not_placed_by_this_call", "not_placed_by_this_call", "not_placed_by_this_call"},
		"unknown, then not sent":    {"unknown", "not_placed_by_this_call", "unknown"},
		"unknown, and then settled": {"unknown", "not_placed", "not_placed"},
		"nothing is said":           {"", "", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := func(err error) func(*easelv1.CreateGenerationRequest) error {
					return func(*easelv1.CreateGenerationRequest) error { return err }
				}
				s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{
					answer(failed(codes.Unavailable, "UPSTREAM_UNAVAILABLE", test.first, time.Second)),
					answer(failed(codes.FailedPrecondition, "INSUFFICIENT_BALANCE", test.last, 0)),
				}}
				_, err := play(t, s).Order(t.Context(), easel.Order{Key: "k"})
				if money := (*easel.InsufficientBalanceError)(nil); !errors.As(err, &money) || string(money.OrderOutcome) != test.want {
					t.Errorf("got %v; want an InsufficientBalanceError with the outcome over both attempts", err)
				}
			})
		})
	}
}

// An attempt that is in flight at the deadline may still place the order, even if the catalog rejected an earlier
// attempt.
func TestOrderInFlightAtTheDeadlineMayExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := make(chan struct{})
		defer close(taken)
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{
			func(*easelv1.CreateGenerationRequest) error {
				return failed(codes.Unavailable, "UPSTREAM_UNAVAILABLE", "not_placed", time.Second)
			},
			func(*easelv1.CreateGenerationRequest) error {
				<-taken
				return nil
			},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := play(t, s).Order(ctx, easel.Order{Key: "k"})
		timeout := (*easel.TimeoutError)(nil)
		if !errors.As(err, &timeout) || timeout.OrderOutcome != easel.OutcomeUnknown || timeout.Reason != "UPSTREAM_UNAVAILABLE" || timeout.IdempotencyKey != "k" {
			t.Errorf("after %d calls, the error is %v; want a TimeoutError with the unknown outcome, the key and the reason UPSTREAM_UNAVAILABLE", len(s.calls), err)
		}
	})
}

// With the key from the error, a program can send the order again without paying twice.
func TestEveryErrorOfRunContainsTheKey(t *testing.T) {
	for name, end := range map[string]func(*easelv1.WatchGenerationRequest, watchStream) error{
		"the watch ends": func(*easelv1.WatchGenerationRequest, watchStream) error {
			return failed(codes.PermissionDenied, "UPSTREAM_FORBIDDEN", "", 0)
		},
		"the time runs out": func(*easelv1.WatchGenerationRequest, watchStream) error {
			return failed(codes.Unavailable, "UPSTREAM_UNAVAILABLE", "", 0)
		},
		"the render fails": func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
			last := update(easelv1.State_STATE_FAILED, "e1")
			last.GetUpdate().GetGeneration().Terminal = true
			return send(stream, last)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					creates: []func(*easelv1.CreateGenerationRequest) error{func(*easelv1.CreateGenerationRequest) error { return nil }},
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
				_, err := play(t, s, retries).Run(ctx, easel.Order{OnKey: func(key string) error { made = key; return nil }})
				base := &easel.Error{}
				if !errors.As(err, &base) || made == "" || base.IdempotencyKey != made || base.GenerationID != "gen_1" || !strings.Contains(err.Error(), "the order exists as gen_1") {
					t.Errorf("the error does not contain the key %s, or does not report that the order exists: %v", made, err)
				}
			})
		})
	}
}

func TestOrderEndsWithItsContextAndReturnsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{
			func(*easelv1.CreateGenerationRequest) error {
				return failed(codes.Unavailable, "UPSTREAM_UNAVAILABLE", "unknown", time.Second)
			},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := play(t, s).Order(ctx, easel.Order{Key: "k"})
		timeout := (*easel.TimeoutError)(nil)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || timeout.Reason != "UPSTREAM_UNAVAILABLE" || timeout.OrderOutcome != easel.OutcomeUnknown || easel.IsRetryable(err) {
			t.Errorf("got %v; want a TimeoutError that is not retryable, with the unknown outcome and the reason UPSTREAM_UNAVAILABLE", err)
		}
		if n := len(s.calls); n < 5 || n > 20 {
			t.Errorf("got %d calls in a minute, want 5 to 20", n)
		}
	})
}

func TestImplausibleDelaysAreNotAwaited(t *testing.T) {
	for name, test := range map[string]struct{ delay, kept time.Duration }{
		"too long":    {10000 * time.Hour, 10000 * time.Hour},
		"in the past": {-time.Second, 0}, // a time in the past means no delay
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{
					func(*easelv1.CreateGenerationRequest) error {
						return failed(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", "unknown", test.delay)
					},
				}}
				_, err := play(t, s).Order(t.Context(), easel.Order{Key: "k"})
				unknown := (*easel.OutcomeUnknownError)(nil)
				if !errors.As(err, &unknown) || unknown.RetryAfter != test.kept || unknown.IdempotencyKey != "k" || unknown.OrderOutcome != easel.OutcomeUnknown || len(s.calls) != 1 {
					t.Errorf("got %d calls, want 1, and an OutcomeUnknownError with the delay and the key; the error is %v", len(s.calls), err)
				}
			})
		})
	}
}
