package catalog

import (
	"context"
	"errors"
	"net/http"

	"github.com/easel-grpc/easel/internal/limiter"
)

// PollsOwner is who all polls of an API key belong to at its gate: they go beside the owners.
const PollsOwner = "(polls)"

// Gate is the gate of an API key, for one use. All requests under the API key pass it.
func (c *Client) Gate(t Tenant) *limiter.Limiter { return c.upstream.gate(t) }

func (q *requester) gate(t Tenant) *limiter.Limiter { return q.gates.Of(string(t)) }

// enter waits for the turn of a request, unless its context has one that holds. A caller without a deadline waits no
// longer than an answer may take.
func (q *requester) enter(ctx context.Context, cred Credential, op string) (*limiter.Permit, error) {
	turn := limiter.TurnOf(ctx)
	err := mayEnter(ctx, cred, op)
	switch {
	case err != nil:
		turn.End(limiter.Answer{Outcome: limiter.Unused})
		return nil, err
	case turn.Holds():
		return turn, nil
	}
	turn.End(limiter.Answer{Outcome: limiter.Unused}) // a pause has begun since
	wish := limiter.Request{Owner: cred.Owner, Weight: cred.Weight, Class: q.class}
	if q.class == limiter.Poll {
		wish.Owner, wish.Weight = PollsOwner, 1
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if _, ok := ctx.Deadline(); !ok {
		waiting, cancel = context.WithTimeout(ctx, q.timeout)
	}
	defer cancel()
	turn, err = q.gate(cred.Tenant).Enter(waiting, wish)
	return turn, notEntered(op, err)
}

// mayEnter checks what no turn is worth waiting for.
func mayEnter(ctx context.Context, cred Credential, op string) error {
	if !printable(cred.APIKey().Reveal()) {
		return &Error{
			Kind: KindCredentialRejected, Op: op, Held: cred.Held,
			Err: errors.New("the API key is empty or has characters that no header can carry"),
		}
	}
	return contextError(ctx)
}

// notEntered is the error of a request that got no turn.
func notEntered(op string, err error) error {
	refused, ok := errors.AsType[*limiter.Refused](err)
	switch {
	case !ok:
		return err
	case refused.Capped:
		return &Error{Kind: KindDailyCap, Op: op, Message: refused.Error()}
	case refused.Throttled:
		return &Error{Kind: KindRateLimited, Op: op, Message: refused.Error(), RetryAfter: refused.After}
	}
	return &Error{Kind: KindBusy, Op: op, Message: refused.Error(), RetryAfter: refused.After}
}

// leave ends the turn of a request with its error, and tells the caller of a 429 how long the gate makes it wait.
func (q *requester) leave(turn *limiter.Permit, cred Credential, err error) {
	turn.End(EndOf(err))
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == KindRateLimited {
		e.RetryAfter = max(e.RetryAfter, q.gate(cred.Tenant).Estimate(limiter.Request{Owner: cred.Owner, Class: q.class}))
	}
}

// EndOf is what the end of a request says to the gate.
func EndOf(err error) limiter.Answer {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return limiter.Answer{Outcome: limiter.Passed}
	case !ok:
		return limiter.Answer{Outcome: limiter.Abandoned}
	case e.Kind == KindBusy:
		return limiter.Answer{Outcome: limiter.Unused}
	case e.Kind == KindRateLimited:
		return limiter.Answer{Outcome: limiter.Throttled, RetryAfter: e.RetryAfter}
	case e.Kind == KindDailyCap:
		return limiter.Answer{Outcome: limiter.Capped}
	case e.Status == http.StatusServiceUnavailable && e.RetryAfter > 0:
		return limiter.Answer{Outcome: limiter.Paused, RetryAfter: e.RetryAfter}
	case temporary(err):
		return limiter.Answer{Outcome: limiter.Failed}
	}
	return limiter.Answer{Outcome: limiter.Answered}
}
