package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/gate"
	"github.com/easel-grpc/easel/internal/service"
)

// call is one call, from its headers until its answer has left.
type call struct {
	*door
	method          string
	peer            string               // network address, for logs and for public methods
	certificate     *service.Certificate // the verified one of the client
	idempotencyKeys []string             // the Idempotency-Key headers of a REST request
	conn            *conn                // nil for a call of REST
	arrived         *limitedConn         // the connection that it has come on; nil where a test has none
	cancel          func()               // ends its context
	begin           func() bool          // reports that the library has begun the call; nil where it does so for sure
	start           time.Time
	ctx             context.Context //nolint:containedctx // says who calls, for what is logged
	own, tagged     ownContext      // from its headers on, and from the begin of its span on
	done            <-chan struct{} // closed when its stream has ended
	span            *callSpan
	otel            stats.Handler

	// Side by side, as there is a call for each watch.
	uncertified bool // its certificate counts no more
	begun       bool // of a REST request: its call is made
	unproved    bool // its API key must be proved before anything is received
	entered     bool // its handler has the request
	quiet       bool // it ended before it began

	in    received // its request
	out   answer   // its newest answer
	names names
	cause error // of its end, before it became a status

	receiving atomic.Int64 // since when its request is awaited, in nanoseconds; 0: it is not
	late      atomic.Bool  // its request has not come in time

	mu      sync.Mutex
	lost    bool // its connection or its stream has ended
	seats   []seat
	turn    *gate.Turn
	working int       // its handler, its REST request, the order that goes on without it
	answers int       // that have not left
	since   time.Time // when an answer began to leave, or a part of it has left
}

type callKey struct{}

// ownContext is a context of a call, which it leads to at once: the library asks for it with each message.
type ownContext struct {
	context.Context //nolint:containedctx // it is one
	call            *call
}

// Value implements context.Context.
func (c *ownContext) Value(key any) any {
	switch key {
	case callKey{}:
		return c.call
	case service.AddressKey{}:
		return c.call.peer
	}
	return c.Context.Value(key)
}

// callOf is the call of a context.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// hold lets a call keep its place until release.
func (c *call) hold() (release func()) {
	c.count(1, 0)
	return func() { c.count(-1, 0) }
}

// count counts who works for a call, and its answers that have not left. The call gives its place back when there is
// neither: the answers of a connection or a stream that has ended never leave.
func (c *call) count(working, answers int) {
	c.mu.Lock()
	c.working += working
	if c.answers += answers; answers != 0 {
		c.since = time.Now()
	}
	over := c.working == 0 && (c.answers == 0 || c.lost)
	c.mu.Unlock()
	if !over {
		return
	}
	c.stand()
	c.door.mu.Lock()
	delete(c.open[c.conn], c)
	c.door.mu.Unlock()
}

// sent gives up an answer that came after the end of its stream: the library forgets it, and does not free it.
func (c *call) sent() {
	select {
	case <-c.done:
		c.lose()
	default:
	}
}

// lose gives up the answers of a call whose connection or stream has ended.
func (c *call) lose() {
	c.mu.Lock()
	c.lost = true
	c.mu.Unlock()
	c.count(0, 0)
}

// stuck reports whether the answer of a call has not moved for too long. Whoever handles a call ends it by itself, except
// where the call is public: the library handles those.
func (c *call) stuck(now time.Time) bool {
	limit := writeTimeout
	if c.method == easelv1.GenerationService_DownloadGeneration_FullMethodName {
		limit = service.DefaultDownloadTimeout
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.working == 0 || public(c.method)) && c.answers > 0 && now.Sub(c.since) > limit
}

// sit adds what a call holds.
func (c *call) sit(s seat, err error) error {
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seats = append(c.seats, s)
	return nil
}

// stand gives back all that a call holds.
func (c *call) stand() {
	c.mu.Lock()
	seats, turn := c.seats, c.turn
	c.seats, c.turn = nil, nil
	c.mu.Unlock()
	for _, s := range seats {
		s.leave()
	}
	if turn != nil {
		turn.End(gate.Answer{})
	}
}

// receive receives a request. Its caller has to send it within its time. A call that holds no place of calls needs one of
// those that read, until check has looked at the request: before that it has no more than the window of a stream.
func (c *call) receive(ctx context.Context, message any, receive func(any) error) error {
	if c.conn != nil && longLived[c.method] || c.conn != nil && public(c.method) {
		turn, err := c.read(ctx)
		if err != nil {
			return err
		}
		defer turn.End(gate.Answer{})
	}
	c.receiving.Store(time.Now().UnixNano())
	c.in = received{ctx: ctx, message: message}
	err := receive(&c.in)
	c.receiving.Store(0)
	if c.in.err != nil {
		err = c.in.err
	}
	if c.late.Load() {
		err = slowRequest(c.arrival())
	}
	c.in = received{} // it is the handler's alone from here on
	if err != nil {
		return err
	}
	return c.check(ctx, message)
}

// read waits for a turn to receive a request.
func (c *call) read(ctx context.Context) (*gate.Turn, error) {
	request := gate.Request{Owner: service.Subject(ctx), Class: gate.Read, Patience: requestTimeout}
	if public(c.method) {
		request.Owner, request.Class = host(c.peer), gate.Poll
	}
	turn, err := c.reading.Enter(ctx, request)
	if refused, ok := errors.AsType[*gate.Refused](err); ok {
		return nil, overload("too many requests are arriving", max(time.Second, refused.After))
	}
	return turn, err
}

// arrival is how long the request of a call may take to arrive.
func (c *call) arrival() time.Duration {
	if public(c.method) {
		return publicTimeout
	}
	return requestTimeout
}

func slowRequest(limit time.Duration) error {
	return service.Fail(easelv1.ErrorReason_REQUEST_BODY_TIMEOUT, fmt.Sprintf("the request did not arrive within %v", limit))
}

// look ends a call whose request has not come in time. Where its answer does not leave it ends the connection, as there is no
// other way to be rid of its bytes.
func (c *call) look(now time.Time) {
	since := c.receiving.Load()
	if since != 0 && now.UnixNano()-since > int64(c.arrival()-checkInterval) && !c.late.Swap(true) {
		c.conn.end(c.cancel)
	}
	if c.stuck(now) {
		_ = c.conn.raw.Close()
	}
}

// check checks a request, and admits what it asks for.
func (c *call) check(ctx context.Context, req any) error {
	err := c.rules.check(c.idempotencyKeys, req)
	if c.names = namesOf(req); err != nil {
		return err
	}
	if err := c.countGenerations(ctx, req); err != nil {
		return err
	}
	c.entered = true
	c.span.enter(c.names, c.methods[c.method].IsServerStream)
	return nil
}

// countGenerations counts the generations that a watch names.
func (c *call) countGenerations(ctx context.Context, req any) error {
	many, ok := req.(interface {
		GetGenerationIds() []string
		GetKnownEtags() map[string]string
	})
	if !ok {
		return nil
	}
	named := max(len(many.GetGenerationIds()), len(many.GetKnownEtags()))
	return c.sit(c.generations.take(service.Subject(ctx), named))
}

// fail makes a status of the error that ends a call.
func (c *call) fail(cause error) error {
	if cause == nil {
		return nil
	}
	c.cause = cause
	err := service.StatusFor(c.ctx, cause).Err()
	if c.method == easelv1.GenerationService_CreateGeneration_FullMethodName {
		err = service.OrderFailure(err, c.entered)
	}
	return service.WithRequestID(c.ctx, err)
}

// errPanicked ends a call that has panicked. The caller does not get the value of the panic, which may
// hold anything.
var errPanicked = service.Fail(easelv1.ErrorReason_INTERNAL, "internal error")

// recovered makes an error of a panic, which would end the process.
func (c *call) recovered(err *error) {
	if value := recover(); value != nil {
		c.logger.ErrorContext(c.ctx, "panic in a call", "method", c.method, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		*err = errPanicked
	}
}

// finish writes the line of a call that has ended, and the end of its span.
func (c *call) finish(err error) {
	end := c.ending(err)
	if !c.quiet {
		end.log()
	}
	c.span.end(end.status, end.took)
}

// ended is a call that has ended.
type ended struct {
	*call
	status *status.Status
	took   time.Duration
}

func (c *call) ending(err error) ended {
	c.cause = cmp.Or(c.cause, err) // else it is the library's own
	return ended{c, status.Convert(err), time.Since(c.start)}
}

// log writes its line.
func (c ended) log() {
	st, took := c.status, c.took
	attrs := append(make([]slog.Attr, 0, 14),
		slog.String("method", c.method),
		slog.String("code", st.Code().String()),
		slog.String("reason", service.Detail[*errdetails.ErrorInfo](st).GetReason()),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("peer", c.peer),
	)
	for _, who := range [][2]string{{"caller", service.Caller(c.ctx)}, {"api_key", service.APIKey(c.ctx)}} {
		if who[1] != "" {
			attrs = append(attrs, slog.String(who[0], who[1]))
		}
	}
	attrs = append(attrs, c.names.attrs(namesOf(c.span.answer), c.span.order)...)
	if c.methods[c.method].IsServerStream {
		attrs = append(attrs, slog.Int64("messages", c.span.messages.Load()))
	}
	if bytes := c.span.bytes.Load(); bytes > 0 {
		attrs = append(attrs, slog.Int64("bytes", bytes))
	}
	level, code := slog.LevelInfo, st.Code()
	switch {
	case code == codes.Internal, code == codes.Unknown, code == codes.DataLoss, service.LedgerFailed(c.cause): // somebody has to look
		level = slog.LevelError
		if c.cause != errPanicked { //nolint:errorlint // which is in the log
			attrs = append(attrs, slog.String("error", c.cause.Error()))
		}
	case public(c.method) && (code == codes.OK || code == codes.Canceled): // probes, and what clients watch, say nothing
		level = slog.LevelDebug
	}
	c.logger.LogAttrs(c.ctx, level, "call", attrs...)
}
