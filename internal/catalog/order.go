package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	submitBackoff = 200 * time.Millisecond // before the first repeat; doubles
	submitPause   = 5 * time.Second        // longest pause between two attempts of our own choice
)

// orders places paid orders, and keeps the promise of [Client.Create].
type orders struct {
	upstream retrier
	book     *orderBook
	ordered  func(context.Context, Order, Generation, error)
}

// place gives the outcome of an order, in which all calls with its idempotency key share. The order is
// known where an earlier call has placed it.
func (o orders) place(ctx context.Context, cred Credential, order Order) (receipt Receipt, known bool, err error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, false, err
	}
	receipt, run, err := o.book.join(ctx, cred, order, func(sub *submission, run *submitRun) {
		o.submit(context.WithoutCancel(ctx), cred, order, sub, run)
	})
	if err != nil || run == nil {
		return receipt, err == nil, err
	}
	receipt, err = run.wait(ctx)
	return receipt, false, err
}

// submit makes attempts until the outcome is certain or the time of all callers is over.
func (o orders) submit(ctx context.Context, cred Credential, order Order, sub *submission, run *submitRun) {
	cred = o.book.credential(sub, cred)
	g, err := Generation{}, error(nil)
	if order.MaxCostCents != nil && !sub.mayExist {
		err = unsent(o.withinLimit(ctx, cred, order))
	}
	for attempt := 0; err == nil; attempt++ {
		if err = o.book.begin(sub, run); err != nil {
			break
		}
		if g, err = o.post(numbered(ctx, attempt+1), cred, order); err == nil {
			break
		}
		if err = o.book.failed(sub, run, err); !tryAgain(err, sub.mayExist) {
			break
		}
		run.pause(o.pauseBefore(attempt, err))
		err = nil
	}
	err = sub.certain(err)
	o.ordered(ctx, order, g, err)
	o.book.finish(sub, run, g, err)
}

// withinLimit prices the order first.
func (o orders) withinLimit(ctx context.Context, cred Credential, order Order) error {
	price, err := quoteInputs(ctx, o.upstream, cred, order.ModelID, order.Inputs)
	if err != nil {
		return err
	}
	if price.PriceCents > *order.MaxCostCents {
		return &Error{Kind: KindPriceAboveLimit, Op: opCreate, PriceCents: price.PriceCents}
	}
	return nil
}

// quoteInputs prices inputs.
func quoteInputs(ctx context.Context, upstream retrier, cred Credential, modelID string, inputs json.RawMessage) (Quote, error) {
	body, err := orderBody(opQuote, modelID, inputs)
	if err != nil {
		return Quote{}, err
	}
	return fetch(ctx, upstream, cred, request{op: opQuote, body: body}, readQuote)
}

// post makes one attempt to place an order. Nothing below repeats it: the body has
// no GetBody, without which Go's transport does not send a request again.
//
// [KindOutcomeUnknown] means that the order may have been taken; Err or Status says
// why that is not known. An error of any other kind means that it was refused. The
// context's own error means that nothing was sent.
func (o orders) post(ctx context.Context, cred Credential, order Order) (Generation, error) {
	body, err := orderBody(opCreate, order.ModelID, order.Inputs)
	if err != nil {
		return Generation{}, err
	}
	if err := checkIdempotencyKey(order.IdempotencyKey); err != nil {
		return Generation{}, err
	}
	if err := ctx.Err(); err != nil {
		return Generation{}, err
	}
	a, err := o.upstream.attempt(ctx, cred, request{op: opCreate, body: body, idempotencyKey: order.IdempotencyKey})
	o.upstream.budget.note(err)
	if err != nil {
		return Generation{}, outcome(err)
	}
	g, err := readCreated(a)
	return g, outcome(err)
}

// orderBody is the body that a quote and an order share. Inputs go into it as they are.
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

// outcome turns the errors of an order that leave open whether it was taken into
// [KindOutcomeUnknown].
func outcome(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: err}
	}
	if e.Kind == KindUnavailable || e.Kind == KindMalformed || !turnedAway(e.Status) {
		open := *e
		open.Kind = KindOutcomeUnknown
		return &open
	}
	return err
}

// turnedAway reports whether an answer to an order says that it was not carried out; 0 is no answer,
// as the order never left. Of the redirects only two do: 307 and 308 ask for the same request
// elsewhere. The others can mean "done, look there" (RFC 9110, 15.4).
func turnedAway(status int) bool {
	switch status {
	case 0, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return status >= 400 && status < 500
}

// tryAgain reports whether another attempt may make the outcome certain.
func tryAgain(err error, unknown bool) bool {
	switch KindOf(err) {
	case KindOutcomeUnknown, KindInProgress, KindBusy:
		return true
	case KindRateLimited:
		return unknown
	}
	return false
}

// pauseBefore is how long to wait before the next attempt: as long as the catalog asks, or
// doubling times of our own.
func (o orders) pauseBefore(attempt int, err error) time.Duration {
	d := min(submitBackoff<<min(attempt, 10), submitPause)
	d = d/2 + o.upstream.jitter.below(d/2)
	if e, ok := errors.AsType[*Error](err); ok {
		d = max(d, e.RetryAfter)
	}
	return d
}
