package catalog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// backoffBase is the longest wait after the first failure; it doubles.
const backoffBase = 100 * time.Millisecond

// fetch sends a request that may be repeated, and gives what is read of its answer.
func fetch[T any](ctx context.Context, c *Client, cred Credential, req *request, read func(answer) (T, error)) (value T, err error) {
	r := &c.upstream
	err = r.retry(ctx, cred, func(ctx context.Context) error {
		return r.attempt(ctx, cred, req, func(a answer) (err error) {
			value, err = read(a)
			return err
		})
	})
	return value, err
}

// retrier sends requests, and retries those that may be sent twice.
type retrier struct {
	requester
	attempts int // for one call, at most
	jitter   *jitter
}

// retry runs a call until it succeeds, fails permanently, or has no attempts or time left. While most requests fail, the limiter of
// the API key allows no retries.
func (r *retrier) retry(ctx context.Context, cred Credential, once func(context.Context) error) error {
	for n := 1; ; n++ {
		err := once(withAttempt(ctx, n))
		if !temporary(err) || n >= r.attempts || !r.limiter(cred.Tenant).MayRetry() {
			return err
		}
		wait, again := r.wait(ctx, n, err)
		if !again {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// wait gives the wait after n attempts, the last of which ended with err. It is false where the wait does
// not fit into the caller's deadline or is longer than one attempt may take: then the caller waits.
func (r *retrier) wait(ctx context.Context, n int, err error) (time.Duration, bool) {
	wait := r.backoff(n)
	if e, ok := errors.AsType[*Error](err); ok {
		wait = max(wait, e.RetryAfter)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, false
	}
	return wait, wait <= r.timeout
}

// backoff draws the wait after n failures, from 0 to a limit that doubles, so that callers that
// failed together do not retry together.
func (r *retrier) backoff(n int) time.Duration { return r.jitter.below(backoffBase << (n - 1)) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type attemptKey struct{}

// withAttempt puts the number of an attempt into a context.
func withAttempt(ctx context.Context, attempt int) context.Context {
	if attempt <= 1 {
		return ctx
	}
	return context.WithValue(ctx, attemptKey{}, attempt)
}

// Attempt gives a transport the number of an attempt of one call, from the request's context: 1 is
// the first. Each connection of a download is one attempt.
func Attempt(ctx context.Context) int {
	attempt, _ := ctx.Value(attemptKey{}).(int)
	return max(attempt, 1)
}

// temporary reports whether the catalog was away or broken. A refused request would be refused again.
func temporary(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == KindUnavailable && (e.Status == 0 || e.Status >= 500)
}

// jitter is the random source of one client's waits. Concurrent calls share it: a seeded run repeats
// where the order of its calls does.
type jitter struct {
	mu     sync.Mutex
	random *rand.Rand
}

// newJitter makes a source with the given seed; 0 takes a random one.
func newJitter(seed uint64) *jitter {
	if seed == 0 {
		seed = rand.Uint64()
	}
	return &jitter{random: rand.New(rand.NewPCG(seed, 0))}
}

// below draws from 0 up to limit, which must be above 0 and is never drawn itself.
func (j *jitter) below(limit time.Duration) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Duration(j.random.Int64N(int64(limit)))
}
