package easel

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Retry is an attempt that failed, and when the next one follows.
type Retry struct {
	Method         string // of the contract, such as WatchGeneration
	GenerationID   string // "" where the call is of none, or of many
	IdempotencyKey string // of an order
	Attempt        int    // that has failed, from 1
	Delay          time.Duration
	Err            error
}

// tooLong is the delay after which nobody waits any more: the error is the caller's.
const tooLong = time.Hour

// longest is the most that back-off comes to, before jitter.
const longest = 10 * time.Second

// attempts are those of one call.
type attempts struct {
	*Client
	Retry
	last      error      // of the newest attempt that the end of the context has not ended
	heartbeat *Heartbeat // the newest, of a watch
}

func (c *Client) attempt(method, generationID, key string) *attempts {
	return &attempts{Client: c, Retry: Retry{Method: method, GenerationID: generationID, IdempotencyKey: key}}
}

// pause waits before the next attempt: as long as the server asks for, and no less than back-off. It gives an error where
// the context ends first, the server asks for too long, or the client is closed.
func (a *attempts) pause(ctx context.Context, told time.Duration, err error) error {
	if errors.Is(err, grpc.ErrClientConnClosing) && ctx.Err() == nil { //nolint:staticcheck // its code alone can't be told from one that a repeat mends
		return err
	}
	if ctx.Err() == nil || a.last == nil {
		a.last = err
	}
	if ctx.Err() != nil {
		return ended(ctx, a.last, a.heartbeat)
	}
	told = max(told, baseOf(err).RetryAfter)
	if told > tooLong {
		return err
	}
	delay := min(time.Second/2<<min(a.Attempt, 8), longest)
	a.Delay = max(delay/2+rand.N(delay), told) //nolint:gosec // it spreads callers
	a.Attempt, a.Err = a.Attempt+1, err
	a.failed(a.Retry)
	a.onRetry(a.Retry)
	timer := time.NewTimer(a.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // at the same moment, too: what is not sent is not unknown
		return ended(ctx, a.last, a.heartbeat)
	}
	return nil
}

// maxAsked is how often a read is sent again because the server says so.
const maxAsked = 10

// unary sends a read again where a repeat may mend its error, and gives each error its class. An order is sent again by
// Order, and a deletion by nobody.
func (c *Client) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	a := c.attempt(path.Base(method), "", "")
	for unasked, asked := 1, 1; ; {
		err := typed(invoke(ctx, method, request, reply, conn, options...))
		switch {
		case err == nil:
			c.answered()
			return nil
		case !isRead(method) || !IsRetryable(err):
			return err
		case baseOf(err).RetryAfter > 0:
			asked++
		default:
			unasked++
		}
		if unasked > c.attempts || asked > maxAsked {
			return err
		}
		if err := a.pause(ctx, 0, err); err != nil {
			return err
		}
	}
}

func isRead(method string) bool {
	return strings.HasPrefix(method, "/easel.v1.") && method != easelv1.GenerationService_CreateGeneration_FullMethodName &&
		method != easelv1.GenerationService_DeleteGeneration_FullMethodName
}

// presence is whether Easel answers.
type presence struct {
	mu    sync.Mutex
	since time.Time // when it went away; zero while it answers
}

// change notes whether Easel is away, and gives since when it was where that is new.
func (p *presence) change(away bool) (since time.Time, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since = p.since; away == !since.IsZero() {
		return since, false
	}
	if p.since = (time.Time{}); away {
		p.since = time.Now()
	}
	return since, true
}

// failed logs that Easel is away, once. An error with a reason is an answer.
func (c *Client) failed(r Retry) {
	e := baseOf(r.Err)
	if away := e.Reason == "" && e.Code == codes.Unavailable || e.Reason == "SERVER_DRAINING" || e.Reason == "UNAVAILABLE"; !away {
		c.answered()
	} else if _, changed := c.presence.change(true); changed {
		c.logger.Warn("Easel is away; the calls go on", "method", r.Method, "error", e.Message, "next_attempt_in", r.Delay)
	}
}

// answered logs that Easel is back, once.
func (c *Client) answered() {
	if since, changed := c.presence.change(false); changed {
		c.logger.Info("Easel is back", "after", time.Since(since).Round(time.Millisecond))
	}
}
