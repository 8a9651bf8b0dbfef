package catalog

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// pollsOwner is the name of the owner to which an API key's limiter attributes all polls.
const pollsOwner = "(polls)"

// Limiter returns the limiter of an API key, which grants the permits for all requests with this key. The caller must not store
// the limiter, because an idle limiter may be replaced.
func (c *Client) Limiter(t Tenant) *limiter.Limiter { return c.upstream.limiter(t) }

// Limiters returns the set that contains the limiter of each API key, keyed by tenant.
func (c *Client) Limiters() *limiter.Set { return c.upstream.limiters }

func (q *requester) limiter(t Tenant) *limiter.Limiter { return q.limiters.Of(string(t)) }

// acquire waits for a permit for a request. If ctx has no deadline, it waits for at most the timeout of one attempt.
func (q *requester) acquire(ctx context.Context, cred Credential, op string) (*limiter.Permit, error) {
	if err := mayAcquire(ctx, cred, op); err != nil {
		return nil, err
	}
	r := limiter.Request{Owner: cred.Owner, Weight: cred.Weight, Class: q.class}
	if q.class == limiter.Poll {
		r.Owner, r.Weight = pollsOwner, 1
	}
	if _, ok := ctx.Deadline(); !ok {
		timed, cancel := context.WithTimeout(ctx, q.timeout)
		defer cancel()
		ctx = timed
	}
	permit, err := q.limiter(cred.Tenant).Acquire(ctx, r)
	if err == nil && !IsWanted(ctx) {
		permit.Release(limiter.Result{Outcome: limiter.Unused})
		return nil, &Error{Kind: KindBusy, Op: op, Message: "not sent: request no longer needed after the wait for a permit"}
	}
	return permit, limiterError(op, err)
}

type wantedKey struct{}

// IfWanted returns a context for a request that may become unnecessary while it waits for a permit. The request is sent only if
// isWanted returns true after the wait.
func IfWanted(ctx context.Context, isWanted func() bool) context.Context {
	return context.WithValue(ctx, wantedKey{}, isWanted)
}

// IsWanted returns the result of the function that was passed to [IfWanted], or true if ctx contains none.
func IsWanted(ctx context.Context) bool {
	isWanted, ok := ctx.Value(wantedKey{}).(func() bool)
	return !ok || isWanted()
}

// mayAcquire returns an error if a request can't be sent because the API key is invalid or ctx is done. The request must then
// not wait for a permit.
func mayAcquire(ctx context.Context, cred Credential, op string) error {
	if !isPrintable(cred.APIKey().Reveal()) {
		return &Error{
			Kind: KindCredentialRejected, Op: op, SharedKey: cred.Shared,
			Err: errors.New("the API key is empty or contains characters that are invalid in a header"),
		}
	}
	return contextError(ctx)
}

// limiterError converts a limiter's error to an [*Error]. It returns other errors unchanged.
func limiterError(op string, err error) error {
	rejected, ok := errors.AsType[*limiter.Error](err)
	switch {
	case !ok:
		return err
	case rejected.Capped:
		return &Error{Kind: KindDailyCap, Op: op, Message: rejected.Error()}
	}
	return &Error{Kind: KindRateLimited, Op: op, Message: rejected.Error(), RetryAfter: rejected.RetryAfter}
}

// release reports err, the result of a request, to the limiter and releases the request's permit. If the request was rate
// limited, release also increases err's RetryAfter to the time for which the limiter still pauses requests.
func (q *requester) release(permit *limiter.Permit, cred Credential, err error) {
	permit.Release(ResultOf(err))
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == KindRateLimited {
		until, _ := q.limiter(cred.Tenant).Pause()
		e.RetryAfter = max(e.RetryAfter, time.Until(until))
	}
}

// ResultOf returns the result to report to the limiter for a request that returned err.
func ResultOf(err error) limiter.Result {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return limiter.Result{Outcome: limiter.Passed}
	case !ok:
		return limiter.Result{Outcome: limiter.Abandoned}
	case e.Kind == KindBusy:
		return limiter.Result{Outcome: limiter.Unused}
	case e.Kind == KindRateLimited:
		return limiter.Result{Outcome: limiter.Throttled, RetryAfter: e.RetryAfter}
	case e.Kind == KindDailyCap:
		return limiter.Result{Outcome: limiter.Capped}
	case e.Status == http.StatusServiceUnavailable && e.RetryAfter > 0:
		return limiter.Result{Outcome: limiter.Unavailable, RetryAfter: e.RetryAfter}
	case isTemporary(err):
		return limiter.Result{Outcome: limiter.Failed}
	}
	return limiter.Result{Outcome: limiter.Rejected}
}
