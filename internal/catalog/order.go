package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// Order is the request to place one paid order.
type Order struct {
	ModelID        string
	Inputs         json.RawMessage // one JSON object, sent verbatim
	IdempotencyKey string
	LeaveBy        time.Time // time after which the order is not sent; zero means no limit
	Attempt        int       // number of the attempt, starting at 1; for traces
	// Permit is a permit from [Client.Acquire]. [Client.Post] always releases it. If it is nil, Post acquires one.
	Permit *limiter.Permit
}

// Acquire waits for a permit for an order, until ctx is done. arrived is the time when the order first arrived at this
// server. It determines the order's position in the queue, so an order that is retried after a 429 keeps its position.
// mayExist means that the catalog may have accepted an earlier attempt. The daily cap then does not apply.
func (c *Client) Acquire(ctx context.Context, cred Credential, arrived time.Time, mayExist bool) (*limiter.Permit, error) {
	permit, err := c.upstream.limiter(cred.Tenant).Acquire(ctx, limiter.Request{
		Owner: cred.Owner, Weight: cred.Weight, Class: limiter.Order, Arrived: arrived, Resend: mayExist,
	})
	return permit, limiterError(OpCreate, err)
}

// Posted is the outcome of one attempt to place an order.
type Posted uint8

// The outcomes.
const (
	// NotSent means that nothing reached the catalog.
	NotSent Posted = iota
	// Unknown means that the catalog may have accepted this attempt or an earlier one.
	Unknown
	// Answered means that the catalog returned the generation or rejected this attempt. An earlier attempt may still have been
	// accepted, because some implementations of the catalog check the balance, the model or the inputs before the idempotency
	// key.
	Answered
)

// Post sends one attempt to place a paid order. No other code sends orders. Post does not retry the request, and Go's
// transport can't resend it, because the request has no GetBody. If the outcome is [Unknown], either the error's AboutKey
// field is set, or its kind is [KindInProgress], [KindKeyReused] or [KindOutcomeUnknown]. For [KindOutcomeUnknown], Err or
// Status contains the reason.
func (c *Client) Post(ctx context.Context, cred Credential, o Order) (Generation, Posted, error) {
	body, err := orderBody(OpCreate, o.ModelID, o.Inputs)
	if err == nil {
		err = checkIdempotencyKey(o.IdempotencyKey)
	}
	if err == nil {
		err = ctx.Err()
	}
	orders := c.upstream
	orders.class = limiter.Order
	if err == nil && o.Permit == nil {
		o.Permit, err = orders.acquire(ctx, cred, OpCreate)
	}
	if err != nil {
		o.Permit.Release(limiter.Result{Outcome: limiter.Unused})
		return Generation{}, NotSent, err
	}
	req := &request{op: OpCreate, body: body, idempotencyKey: o.IdempotencyKey, leaveBy: o.LeaveBy}
	var g Generation
	err = orders.attemptWith(withAttempt(ctx, o.Attempt), o.Permit, cred, req, func(a answer) (err error) {
		g, err = readCreated(a)
		return err
	})
	posted, err := classifyOutcome(err)
	return g, posted, err
}

// classifyOutcome classifies the result of an attempt. If an error does not show whether the order was accepted,
// classifyOutcome changes the kind of the error to [KindOutcomeUnknown].
func classifyOutcome(err error) (Posted, error) {
	if err == nil {
		return Answered, nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return Unknown, &Error{Kind: KindOutcomeUnknown, Op: OpCreate, Err: err}
	}
	isOpen := e.Kind == KindUnavailable || e.Kind == KindMalformed || !isCertainlyRefused(e.Status)
	if isOpen {
		open := *e
		open.Kind = KindOutcomeUnknown
		err = &open
	}
	switch {
	case e.Status == 0 && (!isOpen || hadNoConnection(e)):
		return NotSent, err
	case isOpen || e.Kind == KindInProgress || e.Kind == KindKeyReused || e.AboutKey:
		return Unknown, err
	}
	return Answered, err
}

// hadNoConnection reports whether an attempt failed before there was a connection to the catalog.
func hadNoConnection(e *Error) bool {
	op, ok := errors.AsType[*net.OpError](e.Err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// orderBody returns the request body for a quote or an order. It contains the inputs verbatim.
func orderBody(op, modelID string, inputs json.RawMessage) ([]byte, error) {
	if err := checkID(op, "model_id", modelID); err != nil {
		return nil, err
	}
	if !isObject(inputs) {
		return nil, invalid(op, "inputs", "must be one JSON object")
	}
	id, _ := json.Marshal(modelID) // cannot fail for a string
	return fmt.Appendf(nil, `{"modelId":%s,"inputs":%s}`, id, inputs), nil
}

// isCertainlyRefused reports whether an error with this HTTP status proves that the order was not placed. This is true for a
// 4xx, and for a 307 or 308, which asks the client to send the same request to another address. Any other redirect may mean
// that the order was placed (RFC 9110, 15.4). For status 0, which means that there was no response, the result is also true,
// although a [KindUnavailable] proves nothing. The caller must therefore check for this kind too.
func isCertainlyRefused(status int) bool {
	switch status {
	case 0, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return status >= 400 && status < 500
}
