package cli

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/terminal"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	firstDelay = 250 * time.Millisecond
	maxDelay   = 15 * time.Second
)

// delayAfter is how long to wait before the next try: what the server asked for, else
// longer from try to try. Both are spread, so that many clients do not come at once.
func delayAfter(err error, failures int) time.Duration {
	if asked := detailsOf(err).retryDelay; asked > 0 {
		return spread(asked, 0.2)
	}
	return spread(min(firstDelay<<min(failures, 6), maxDelay)/2, 1)
}

// spread lengthens a delay by a random part of the given share of it.
func spread(delay time.Duration, share float64) time.Duration {
	return delay + time.Duration(rand.Float64()*share*float64(delay))
}

// insist asks until there is an answer that another try would not change, or no time for
// another. before is called with each error that may pass, and how long it then waits.
func insist[T any](
	ctx context.Context, passes func(error) bool, before func(error, time.Duration), ask func() (T, error),
) (T, error) {
	for failures := 0; ; failures++ {
		answer, err := ask()
		if err == nil || !passes(err) {
			return answer, err
		}
		again := delayAfter(err, failures)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < again {
			return answer, err
		}
		before(err, again)
		if rest(ctx, again) != nil {
			return answer, err
		}
	}
}

// unsettled reports whether an order may have been taken all the same. Only the same
// order once more finds out.
func unsettled(err error) bool {
	code := status.Code(err)
	return (code == codes.Unavailable || code == codes.Aborted) && !tooLate(err)
}

// tooLate reports whether an order may have been taken, and is not sent again: the server asks for no
// other try.
func tooLate(err error) bool {
	f := detailsOf(err)
	return f.reason == "SUBMISSION_OUTCOME_UNKNOWN" && f.retryDelay == 0
}

// postponed reports whether the server has asked to come again. A server that is not
// there has not: who has mistyped its address should not have to wait.
func postponed(err error) bool {
	passing := []codes.Code{codes.Unavailable, codes.Aborted, codes.ResourceExhausted}
	return slices.Contains(passing, status.Code(err)) && detailsOf(err).retryDelay > 0
}

// read asks a question that changes nothing, as often as the server asks to come again.
func read[T any](ctx context.Context, s *session, ask func() (T, error)) (T, error) {
	return insist(ctx, postponed, func(err error, again time.Duration) {
		text := "no answer yet (" + messageOf(err) + "), asking again in " + briefly(again)
		switch {
		case s.quiet:
		case s.json:
			s.noteJSON(text)
		default:
			s.Tell(s.ErrStyle.Paint(terminal.Dim, text))
		}
	}, ask)
}

// rest waits, or ends with the context.
func rest(ctx context.Context, delay time.Duration) error {
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hopeless reports whether an error is the same however often one asks.
func hopeless(err error) bool {
	lasting := []codes.Code{codes.NotFound, codes.Unauthenticated, codes.InvalidArgument, codes.PermissionDenied}
	return slices.Contains(lasting, status.Code(err))
}
