package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Order is a paid request for one generation.
type Order struct {
	ModelID        string
	Inputs         json.RawMessage // one JSON object, sent digit for digit
	IdempotencyKey string
	LeaveBy        time.Time // what is not sent by then is not sent; zero: whenever
	Attempt        int       // which attempt of the order it is, for traces: 1 is the first
}

// Posted is what has become of one attempt to place an order.
type Posted uint8

// What may become of one.
const (
	// NotSent means that nothing has reached the catalog.
	NotSent Posted = iota
	// Unknown means that the order may have been taken, now or by an earlier attempt.
	Unknown
	// Refused means that this attempt was not taken. An earlier one may have been: some catalogs look at money, models
	// or inputs before they look at the idempotency key.
	Refused
	// Placed means that the catalog has named the generation.
	Placed
)

// Post makes one attempt to place a paid order. Nothing else does, and nothing repeats it: without a GetBody, Go's
// transport does not send a request again. The error of an attempt that is [Unknown] is [KindOutcomeUnknown], with the
// reason in Err or Status, [KindInProgress] or [KindKeyReused], or speaks of the idempotency key.
func (c *Client) Post(ctx context.Context, cred Credential, o Order) (Generation, Posted, error) {
	body, err := orderBody(OpCreate, o.ModelID, o.Inputs)
	if err == nil {
		err = checkIdempotencyKey(o.IdempotencyKey)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Generation{}, NotSent, err
	}
	a, err := c.upstream.attempt(withAttempt(ctx, o.Attempt), cred, request{op: OpCreate, body: body, idempotencyKey: o.IdempotencyKey, leaveBy: o.LeaveBy})
	c.upstream.retryBudget.note(err)
	var g Generation
	if err == nil {
		g, err = readCreated(a)
	}
	err = unknownOutcome(err)
	return g, posted(err), err
}

// posted classifies the end of an attempt.
func posted(err error) Posted {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return Placed
	case !ok:
		return Unknown
	case e.Status == 0 && !mayHaveArrived(e):
		return NotSent
	case e.Kind == KindOutcomeUnknown || e.Kind == KindInProgress || e.Kind == KindKeyReused || e.AboutKey:
		return Unknown
	}
	return Refused
}

// mayHaveArrived reports whether an attempt without an answer may have reached the catalog: it had a connection.
func mayHaveArrived(e *Error) bool {
	op, ok := errors.AsType[*net.OpError](e.Err)
	dial := ok && (op.Op == "dial" || op.Op == "proxyconnect")
	return e.Kind == KindOutcomeUnknown && !dial
}

// quoteInputs prices inputs.
func quoteInputs(ctx context.Context, upstream retrier, cred Credential, modelID string, inputs json.RawMessage) (Quote, error) {
	body, err := orderBody(opQuote, modelID, inputs)
	if err != nil {
		return Quote{}, err
	}
	return fetch(ctx, upstream, cred, request{op: opQuote, body: body}, readQuote)
}

// orderBody is the body of a quote and of an order. Inputs go into it as they are.
func orderBody(op, modelID string, inputs json.RawMessage) ([]byte, error) {
	if err := checkID(op, "model_id", modelID); err != nil {
		return nil, err
	}
	if !isObject(inputs) {
		return nil, invalid(op, "inputs", "must be one JSON object")
	}
	id, _ := json.Marshal(modelID) // a text can always be written
	return fmt.Appendf(nil, `{"modelId":%s,"inputs":%s}`, id, inputs), nil
}

// unknownOutcome turns an error that leaves open whether the order was taken into
// [KindOutcomeUnknown].
func unknownOutcome(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return &Error{Kind: KindOutcomeUnknown, Op: OpCreate, Err: err}
	}
	if e.Kind == KindUnavailable || e.Kind == KindMalformed || !certainlyRefused(e.Status) {
		open := *e
		open.Kind = KindOutcomeUnknown
		return &open
	}
	return err
}

// certainlyRefused reports whether an answer to an order says that it was not carried out; status 0 is no
// answer, as the order was never sent. Of the redirects only 307 and 308 say so: they ask for the same
// request elsewhere. The others can mean "done, look there" (RFC 9110, 15.4).
func certainlyRefused(status int) bool {
	switch status {
	case 0, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return status >= 400 && status < 500
}
