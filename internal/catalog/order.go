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
	submitBackoff = 200 * time.Millisecond // before the second attempt; doubles
	submitPause   = 5 * time.Second        // longest back-off of our own
)

// orders places paid orders, and keeps the promise of [Client.Create].
type orders struct {
	upstream retrier
	book     *orderBook
	ordered  func(context.Context, Credential, Order, Generation, error)
}

// place places an order and gives its outcome, which all calls with its idempotency key share. The order is
// known where an earlier call has placed it.
func (o orders) place(ctx context.Context, cred Credential, order Order) (receipt Receipt, known bool, err error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, false, err
	}
	for {
		receipt, run, err := o.book.join(ctx, cred, order, func(sub *submission, run *submitRun) {
			o.submit(context.WithoutCancel(ctx), cred, order, sub, run)
		})
		if err != nil || run == nil {
			return receipt, err == nil, err
		}
		outcome, err := run.wait(ctx)
		if receipt.Replayed && run.refused() && ctx.Err() == nil {
			continue // by the limits of another call, or before this one came: this call asks for itself
		}
		outcome.Replayed = outcome.Replayed || receipt.Replayed
		return outcome, false, err
	}
}

// resend makes attempts for one call alone, whose journal has taken the right to make them: no other call shares them.
func (o orders) resend(ctx context.Context, cred Credential, order Order) (Receipt, error) {
	sub, run := o.book.alone(ctx, cred, order)
	o.book.work.Go(func() { o.submit(context.WithoutCancel(ctx), cred, order, sub, run) })
	return run.wait(ctx)
}

// submit makes attempts until the outcome is certain, or the time of all callers is over. Nobody is told the
// outcome before the journal has it.
func (o orders) submit(ctx context.Context, cred Credential, order Order, sub *submission, run *submitRun) {
	cred = o.book.credential(sub, cred)
	receipt, err := o.attempts(ctx, cred, order, sub, run)
	err = sub.withholdRefusal(err)
	if order.Journal != nil && !receipt.Replayed {
		receipt.Generation, err = order.Journal.Conclude(ctx, receipt.Generation, err, err != nil && !sub.mayExist && !isAboutKey(err))
	}
	if !receipt.Replayed {
		o.ordered(ctx, cred, order, receipt.Generation, err)
	}
	o.book.finish(sub, run, receipt, err)
}

// attempts makes attempts until one is answered, or none may begin.
func (o orders) attempts(ctx context.Context, cred Credential, order Order, sub *submission, run *submitRun) (Receipt, error) {
	if order.Journal == nil && order.MaxCostCents != nil && !sub.mayExist {
		if err := o.withinLimit(ctx, cred, order); err != nil {
			return Receipt{}, Unsent(err)
		}
	}
	for attempt := 0; ; attempt++ {
		if err := o.book.begin(sub, run); err != nil {
			return Receipt{}, err
		}
		turn, err := o.turn(ctx, cred, order)
		o.book.resume(sub, turn)
		if err != nil || turn.Placed != nil {
			return turn.receipt(), err
		}
		if turn.Pause > 0 {
			run.pause(turn.Pause)
			continue
		}
		order.Inputs = turn.Inputs
		g, err := o.post(withAttempt(ctx, attempt+1), cred, order, turn.LeaveBy)
		if err == nil {
			return Receipt{Generation: g}, nil
		}
		if err = o.book.failed(sub, run, err); !retryableOrder(err, sub.mayExist) {
			return Receipt{}, err
		}
		run.pause(o.backoff(attempt, err))
	}
}

// turn asks the journal what to do next. Without one it is to send the order.
func (o orders) turn(ctx context.Context, cred Credential, order Order) (Turn, error) {
	if order.Journal == nil {
		return Turn{Inputs: order.Inputs}, nil
	}
	return order.Journal.Next(ctx, cred)
}

// isAboutKey reports whether a refusal may be of the idempotency key: there may be an order under it.
func isAboutKey(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.AboutKey || e.Kind == KindKeyReused)
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

// post makes one attempt to place an order. The layers below do not repeat it: without a
// GetBody, Go's transport does not send a request again.
//
// [KindOutcomeUnknown] means that the order may have been taken; Err or Status says
// why. An error of any other kind means that it was refused. The context's own error
// means that nothing was sent.
func (o orders) post(ctx context.Context, cred Credential, order Order, leaveBy time.Time) (Generation, error) {
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
	a, err := o.upstream.attempt(ctx, cred, request{op: opCreate, body: body, idempotencyKey: order.IdempotencyKey, leaveBy: leaveBy})
	o.upstream.retryBudget.note(err)
	if err != nil {
		return Generation{}, unknownOutcome(err)
	}
	g, err := readCreated(a)
	return g, unknownOutcome(err)
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
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: err}
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

// retryableOrder reports whether another attempt may make the outcome certain.
func retryableOrder(err error, unknown bool) bool {
	switch KindOf(err) {
	case KindOutcomeUnknown, KindInProgress, KindBusy:
		return true
	case KindRateLimited:
		return unknown
	}
	return false
}

// backoff is the wait before the next attempt: as long as the catalog asks, or a doubling time of our own.
func (o orders) backoff(attempt int, err error) time.Duration {
	d := min(submitBackoff<<min(attempt, 10), submitPause)
	d = d/2 + o.upstream.jitter.below(d/2)
	if e, ok := errors.AsType[*Error](err); ok {
		d = max(d, e.RetryAfter)
	}
	return d
}
