package cli

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

const (
	firstDelay = 250 * time.Millisecond
	maxDelay   = 15 * time.Second
)

// delayAfter is how long to wait before the next try: what the server asked for, else
// longer from try to try. Both are spread, so that many clients do not come at once.
func delayAfter(err error, failures int) time.Duration {
	if asked := detailsOf(err).retryDelay; asked > 0 {
		return jittered(asked, 0.2)
	}
	return jittered(min(firstDelay<<min(failures, 6), maxDelay)/2, 1)
}

// jittered lengthens a delay by a random part of the given share of it.
func jittered(delay time.Duration, share float64) time.Duration {
	return delay + time.Duration(rand.Float64()*share*float64(delay))
}

// retry asks until there is an answer that another try would not change, or no time for
// another. before is called with each error that may pass, and how long it then waits.
func retry[T any](
	ctx context.Context, passes func(error) bool, before func(error, time.Duration), ask func() (T, error),
) (T, error) {
	for failures := 0; ; failures++ {
		answer, err := ask()
		if err == nil || !passes(err) {
			return answer, err
		}
		delay := delayAfter(err, failures)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
			return answer, err
		}
		before(err, delay)
		if sleep(ctx, delay) != nil {
			return answer, err
		}
	}
}

// outcomeUnknown reports whether an order may have been taken all the same. Only the same
// order once more finds out.
func outcomeUnknown(err error) bool {
	code := status.Code(err)
	return (code == codes.Unavailable || code == codes.Aborted) && !isNeverResent(err)
}

// isNeverResent reports whether an order may have been taken, and is not sent again: the server asks for no
// other try.
func isNeverResent(err error) bool {
	f := detailsOf(err)
	return reasonNamed(f.reason) == easelv1.ErrorReason_SUBMISSION_OUTCOME_UNKNOWN && f.retryDelay == 0
}

// askedToRetry reports whether the server has asked to come again. A server that is not
// there has not: who has mistyped its address should not have to wait.
func askedToRetry(err error) bool {
	passing := []codes.Code{codes.Unavailable, codes.Aborted, codes.ResourceExhausted}
	return slices.Contains(passing, status.Code(err)) && detailsOf(err).retryDelay > 0
}

// retryRead asks a question that changes nothing, as often as the server asks to come again.
func retryRead[T any](ctx context.Context, s *session, ask func() (T, error)) (T, error) {
	return retry(ctx, askedToRetry, s.tellNoAnswer, ask)
}

// tellNoAnswer tells why a question is asked again, and when.
func (s *session) tellNoAnswer(err error, delay time.Duration) {
	text := "no answer yet (" + messageOf(err) + "), asking again in " + formatDuration(delay)
	switch {
	case s.quiet:
	case s.json:
		s.noteJSON(text)
	default:
		s.Tell(s.ErrStyle.Paint(terminal.Dim, text))
	}
}

// troubleOf says why an order has no answer yet: what the catalog has answered, where the server tells that.
func troubleOf(err error) string {
	text, answered := messageOf(err), detailsOf(err).metadata["upstream_status"]
	if answered == "" {
		return text
	}
	if _, said, found := strings.Cut(text, "idempotency_key again"); found { // before that stands what every unknown outcome has
		text = strings.TrimLeft(said, ":; ")
	}
	return strings.TrimSuffix("the catalog answers "+terminal.OneLine(answered)+": "+text, ": ")
}

// sleep waits, or ends with the context.
func sleep(ctx context.Context, delay time.Duration) error {
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isPermanent reports whether an error is the same however often one asks: the contract says so of these codes, and
// that after any other one watches again.
func isPermanent(err error) bool {
	permanent := []codes.Code{
		codes.NotFound, codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition, codes.Unimplemented,
	}
	return slices.Contains(permanent, status.Code(err))
}
