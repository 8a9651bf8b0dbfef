package easel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestRunGivesAFinishedRenderOfTheRealServer(t *testing.T) {
	t.Parallel()
	dev := proctest.Start(t, nil, append([]string{proctest.Easel(t)}, proctest.Dev()...)...)
	dev.Ready(t, proctest.DevReady)
	env := proctest.DevClients(t, dev.Output.String())
	client, err := easel.Dial(env["EASEL_ADDR"], env["EASEL_API_KEY"], insecure.NewCredentials())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	request := &easelv1.CreateGenerationRequest{
		ModelId: "studio/landscape", IdempotencyKey: "order-1", InputsJson: `{"prompt":"hills","size":"320x200"}`,
	}
	render, err := client.Run(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var picture bytes.Buffer
	if err := client.Download(t.Context(), render.GetGenerationId(), &picture); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&picture); err != nil {
		t.Error(err)
	}
	again, err := client.Run(t.Context(), request)
	if err != nil || again.GetGenerationId() != render.GetGenerationId() {
		t.Errorf("the same key gives %v, %v", again, err)
	}
	watchesOfTheRealServer(t, client, render)
}

// watchesOfTheRealServer watches a finished render by name, which ends, and the account, which does not.
func watchesOfTheRealServer(t *testing.T, client *easel.Client, render *easelv1.Generation) {
	t.Helper()
	var states []string
	for state, err := range client.WatchMany(t.Context(), &easelv1.WatchGenerationsRequest{GenerationIds: []string{render.GetGenerationId(), "unknown"}}) {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state.GetState().String())
	}
	if slices.Sort(states); fmt.Sprint(states) != "[STATE_DELETED STATE_SUCCEEDED]" {
		t.Errorf("the watch of two is told %s", states)
	}
	for account, err := range client.WatchAccount(t.Context(), nil) {
		if err != nil || account.GetBalanceCents() != 5000-render.GetCostCents() {
			t.Errorf("the account has %v, %v", account, err)
		}
		break
	}
}

func TestOrderGoesOnWithTheSameKeyUntilTheOutcomeIsKnown(t *testing.T) {
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
		render, err := play(t, s).Order(t.Context(), &easelv1.CreateGenerationRequest{IdempotencyKey: "k"})
		if err != nil || render.GetGenerationId() != "gen_1" {
			t.Fatal(render, err)
		}
		if got := fmt.Sprint(keys); got != "[k k k k k]" {
			t.Errorf("the keys were %s", got)
		}
		if waited := s.calls[2].Sub(s.calls[1]); waited < time.Minute || waited > 2*time.Minute {
			t.Errorf("it waited %s where the server asked for a minute", waited)
		}
	})
}

func TestOrderGivesUpWhereARepeatCanNotMendIt(t *testing.T) {
	for reason, test := range map[string]struct {
		code    codes.Code
		outcome easel.Outcome
	}{
		"BUDGET_EXCEEDED":              {codes.ResourceExhausted, easel.OutcomeNotPlaced},
		"SUBMISSION_OUTCOME_UNKNOWN":   {codes.Unavailable, easel.OutcomeUnknown}, // without RetryInfo it is too late
		"PRICE_ABOVE_LIMIT":            {codes.FailedPrecondition, easel.OutcomeNotPlacedByThisCall},
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
				_, err := play(t, s).Order(t.Context(), &easelv1.CreateGenerationRequest{IdempotencyKey: "k"})
				err = fmt.Errorf("as callers do: %w", err)
				if len(s.calls) != 1 || easel.Reason(err).String() != reason || easel.OrderOutcome(err) != test.outcome {
					t.Errorf("%d calls, %s, %s: %v", len(s.calls), easel.Reason(err), easel.OrderOutcome(err), err)
				}
			})
		})
	}
}

func TestOrderNeedsAnIdempotencyKey(t *testing.T) {
	if _, err := easel.New(nil).Order(t.Context(), &easelv1.CreateGenerationRequest{Inputs: &structpb.Struct{}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v", err)
	}
}

func TestOrderEndsWithItsContextAndTellsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{
			func(*easelv1.CreateGenerationRequest) error {
				return failed(codes.Unavailable, "UPSTREAM_UNAVAILABLE", "unknown", time.Second)
			},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := play(t, s).Order(ctx, &easelv1.CreateGenerationRequest{IdempotencyKey: "k"})
		if !errors.Is(err, context.DeadlineExceeded) || easel.Reason(err) != easelv1.ErrorReason_UPSTREAM_UNAVAILABLE {
			t.Errorf("got %v", err)
		}
		if n := len(s.calls); n < 5 || n > 20 {
			t.Errorf("%d calls in a minute", n)
		}
	})
}
