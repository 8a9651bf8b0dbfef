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
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Retry describes a failed attempt and the delay before the next attempt.
type Retry struct {
	Method         string // name of the gRPC method, such as WatchGeneration
	GenerationID   string // ID of the generation; empty if the call does not concern a single generation
	IdempotencyKey string // idempotency key of the order; empty if unknown
	Attempt        int    // number of failed attempts in the current series of failures, including this one
	Delay          time.Duration
	Err            error
}

// tooLong is the maximum delay before a retry. If the server requests a longer delay, the call fails.
const tooLong = time.Hour

// longest is the maximum back-off before jitter.
const longest = 10 * time.Second

// maxAsked limits the retries of a read or a deletion. The call fails after this number of errors with a requested delay (see
// Error.RetryAfter).
const maxAsked = 10

// limits contains a call's total time and its maximum number of consecutive failed attempts.
type limits struct {
	timeout  time.Duration // zero means no limit
	attempts int
}

// The default limits. Watches, waits and downloads have no time limit. 100 consecutive failed attempts take about 15 minutes.
var (
	orderLimits  = limits{15 * time.Minute, 100}
	streamLimits = limits{0, 100}
)

func (c *Client) readLimits() limits { return limits{time.Minute, c.attempts} }

// CallOption changes a setting of one call.
type CallOption func(*call)

// call contains the options of one call.
type call struct {
	limits
	bounded bool // whether the caller passed the option Timeout
	resend  bool // whether the call is retried although it is not a read
	force   bool
	until   easelv1.WatchUntil
	known   map[string]string
	filter  Filter
}

// Timeout sets a call's total time, over all its attempts. Zero means that only the context limits the call's time.
func Timeout(total time.Duration) CallOption {
	return func(c *call) { c.timeout, c.bounded = total, true }
}

// Attempts sets the number of consecutive failed attempts after which a call fails.
func Attempts(n int) CallOption { return func(c *call) { c.attempts = n } }

type callKey struct{}

// applyOptions applies the options of a call and of the client to a context. The context's deadline, if any, replaces the
// default total time.
func (c *Client) applyOptions(ctx context.Context, defaults limits, options []CallOption) (context.Context, *call, context.CancelFunc) {
	o := &call{limits: defaults}
	if c.timeout > 0 && o.timeout > 0 {
		o.timeout = c.timeout
	}
	for _, option := range options {
		option(o)
	}
	ctx = context.WithValue(ctx, callKey{}, o)
	if _, bounded := ctx.Deadline(); o.timeout > 0 && (o.bounded || !bounded) {
		ctx, cancel := context.WithTimeout(ctx, o.timeout)
		return ctx, o, cancel
	}
	return ctx, o, func() {}
}

// attempts keeps track of the attempts of one call.
type attempts struct {
	*Client
	Retry
	max       int // number of consecutive failed attempts after which the call fails
	failures  int
	since     time.Time // start of the current series of failures; zero after a success
	warned    bool
	last      error      // latest error that was not caused by the deadline or the cancellation of the context
	heartbeat *Heartbeat // latest heartbeat of a watch
}

func (c *Client) attempt(o *call, method, generationID, key string) *attempts {
	return &attempts{Client: c, max: o.attempts, since: time.Now(), Retry: Retry{Method: method, GenerationID: generationID, IdempotencyKey: key}}
}

// pause waits before the next attempt, for the longer of the back-off and the delay that the server requests. It returns
// an error if the context is done first, the requested delay is too long, the attempts are used up, or the client is closed.
func (a *attempts) pause(ctx context.Context, told time.Duration, err error) error {
	if errors.Is(err, grpc.ErrClientConnClosing) && ctx.Err() == nil { //nolint:staticcheck // the client is closed, so a retry can't help, although the status code is retryable
		return err
	}
	deadline, bounded := ctx.Deadline()
	isOver := ctx.Err() != nil || bounded && !time.Now().Before(deadline) // the server may report the exceeded deadline before ctx is done
	if !isOver || a.last == nil {
		a.last = err
	}
	if ctx.Err() != nil {
		return contextError(ctx, a.last, a.heartbeat)
	}
	told = max(told, baseOf(err).RetryAfter)
	if a.failures++; told > tooLong || a.failures >= a.max {
		return err
	}
	delay := min(time.Second/2<<min(a.Attempt, 8), longest)
	a.Delay = max(delay/2+rand.N(delay), told) //nolint:gosec // jitter needs no secure random numbers
	a.Attempt, a.Err = a.Attempt+1, err
	a.warnIfDue()
	a.onRetry(a.Retry)
	timer := time.NewTimer(a.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // if both channels are ready, the timer may win; another attempt could then make an order's outcome unknown
		return contextError(ctx, a.last, a.heartbeat)
	}
	return nil
}

// interceptUnary intercepts unary calls. It converts errors to this package's error types. It retries reads, and other calls
// only if their field resend is set. It does not retry orders, because Order does so itself.
func (c *Client) interceptUnary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	o, ok := ctx.Value(callKey{}).(*call)
	if !ok && isRead(method) {
		var cancel context.CancelFunc
		ctx, o, cancel = c.applyOptions(ctx, c.readLimits(), nil)
		defer cancel()
	}
	if o == nil || !o.resend && !isRead(method) {
		return c.toTypedError(invoke(ctx, method, request, reply, conn, options...))
	}
	a := c.attempt(&call{limits: limits{attempts: o.attempts + maxAsked}}, path.Base(method), "", "")
	for unasked, asked := 1, 1; ; {
		err := c.toTypedError(invoke(ctx, method, request, reply, conn, options...))
		switch {
		case err == nil:
			a.recordSuccess()
			return nil
		case !IsRetryable(err):
			return err
		case baseOf(err).RetryAfter > 0:
			asked++
		default:
			unasked++
		}
		if unasked > o.attempts || asked > maxAsked {
			return err
		}
		if err := a.pause(ctx, 0, err); err != nil {
			return err
		}
	}
}

// isRead reports whether the contract declares that a method has no side effects.
func isRead(method string) bool {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil || found.ParentFile().Package() != "easel.v1" {
		return false
	}
	options, ok := found.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

const (
	warnAfter    = 5 * time.Second
	warnInterval = time.Minute // minimum interval between warnings about one method
)

// warned stores the time of the last warning about each method.
type warned struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// mayWarn reports whether a warning about a gRPC method is due. If it is due, mayWarn also records the time of the warning.
func (w *warned) mayWarn(method string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.last[method]; ok && time.Since(last) < warnInterval {
		return false
	}
	if w.last == nil {
		w.last = make(map[string]time.Time)
	}
	w.last[method] = time.Now()
	return true
}

// warnIfDue logs a warning if the call will have failed for at least five seconds when its next attempt starts. For each
// method, it logs at most one warning per minute.
func (a *attempts) warnIfDue() {
	if a.since.IsZero() {
		a.since = time.Now()
	}
	if failing := time.Since(a.since); failing+a.Delay >= warnAfter && a.Client.warned.mayWarn(a.Method) {
		a.warned = true
		a.logger.Warn("call still failing", "method", a.Method, "address", a.hostPort(), "failing_for", failing.Round(time.Millisecond), "retry_in", a.Delay.Round(time.Millisecond), "error", a.Err)
	}
}

// recordSuccess records a successful response. If a warning about the call was logged, it also logs that the call has
// recovered.
func (a *attempts) recordSuccess() {
	if a.warned {
		a.logger.Info("call recovered", "method", a.Method, "after", time.Since(a.since).Round(time.Millisecond))
	}
	a.failures, a.since, a.warned = 0, time.Time{}, false
}
