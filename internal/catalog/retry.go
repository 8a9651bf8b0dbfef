package catalog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// backoffBase is the maximum delay before the first retry. The maximum doubles with each failure.
const backoffBase = 100 * time.Millisecond

// fetch sends a request, and retries it after temporary failures. It passes the response to decodeAnswer, and returns the
// decoded value.
func fetch[T any](ctx context.Context, c *Client, cred Credential, req *request, decodeAnswer func(answer) (T, error)) (value T, err error) {
	r := &c.upstream
	err = r.retryRequest(ctx, cred, func(ctx context.Context) error {
		return r.attemptOnce(ctx, cred, req, func(a answer) (err error) {
			value, err = decodeAnswer(a)
			return err
		})
	})
	return value, err
}

// retryRequest repeats a request until it succeeds or fails permanently, or until no attempt or no time is left. After several
// consecutive failures with an API key, the key's limiter allows no more retries.
func (q *requester) retryRequest(ctx context.Context, cred Credential, once func(context.Context) error) error {
	for n := 1; ; n++ {
		err := once(withAttempt(ctx, n))
		if !isTemporary(err) || n >= q.attempts || !q.limiter(cred.Tenant).MayRetry() {
			return err
		}
		wait, again := q.retryDelay(ctx, n, err)
		if !again {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// retryDelay returns the delay before the next attempt. n is the number of attempts so far, and err is the error from the last
// attempt. retryDelay returns false if the delay would end after the caller's deadline, or if it is longer than the timeout of
// one attempt. In these cases, err is returned to the caller, which may retry later.
func (q *requester) retryDelay(ctx context.Context, n int, err error) (time.Duration, bool) {
	wait := q.jitter.randomDelay(backoffBase << (n - 1)) // random, so that requests that failed together are not retried together
	if e, ok := errors.AsType[*Error](err); ok {
		wait = max(wait, e.RetryAfter)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, false
	}
	return wait, wait <= q.timeout
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type attemptKey struct{}

// withAttempt stores the number of an attempt in a context.
func withAttempt(ctx context.Context, attempt int) context.Context {
	return context.WithValue(ctx, attemptKey{}, attempt)
}

// Attempt returns the number of the attempt to which a request's context belongs. The first attempt is 1. Each connection of a
// download is one attempt.
func Attempt(ctx context.Context) int {
	attempt, _ := ctx.Value(attemptKey{}).(int)
	return max(attempt, 1)
}

// isTemporary reports whether an attempt failed because the catalog was unavailable, so that a retry may help. A rejected
// request would be rejected again.
func isTemporary(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == KindUnavailable && (e.Status == 0 || e.Status >= 500)
}

// jitter is the random source of one client's delays. Concurrent calls share it, so a run with a fixed seed is repeatable only if
// its calls have a fixed order.
type jitter struct {
	mu     sync.Mutex
	random *rand.Rand
}

// newJitter creates a source with the given seed. Zero means a random seed.
func newJitter(seed uint64) *jitter {
	if seed == 0 {
		seed = rand.Uint64()
	}
	return &jitter{random: rand.New(rand.NewPCG(seed, 0))}
}

// randomDelay returns a random duration of at least 0 and less than limit. limit must be positive.
func (j *jitter) randomDelay(limit time.Duration) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Duration(j.random.Int64N(int64(limit)))
}
