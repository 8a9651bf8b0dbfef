package easel

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Order is what to render.
type Order struct {
	Model      string
	Inputs     map[string]any
	InputsJSON string // the inputs as one JSON object instead, passed on digit for digit

	// Key is the idempotency key: whoever sends the same order with it again gets the same render, and it is paid once.
	// Write it down before. Without one Order makes one, and hands it to OnKey, else to the logger, before it sends.
	Key   string
	OnKey func(key string) error // an error stops the order before it is sent

	MaxCostCents *int64 // refuses a higher price
	Labels       map[string]string
}

// Cents is an amount for Order.MaxCostCents.
func Cents(n int64) *int64 { return &n }

// Placed is an order that was taken.
type Placed struct {
	*Render
	Key      string
	Replayed bool // the key had been used: this is the render of the earlier order
}

// Order places an order, and sends it again with the same key until its outcome is known. Where the OrderOutcome of the
// error is OutcomeUnknown, the order may exist: keep the key.
func (c *Client) Order(ctx context.Context, order Order, options ...CallOption) (*Placed, error) {
	ctx, o, cancel := c.begin(ctx, orderLimits, options)
	defer cancel()
	request, err := order.request()
	if err != nil {
		return nil, err
	}
	if request.IdempotencyKey == "" {
		request.IdempotencyKey = rand.Text()
		if err := c.tellKey(order.OnKey, request.IdempotencyKey); err != nil {
			return nil, fmt.Errorf("easel: nothing was ordered, because its idempotency key was not kept: %w", err)
		}
	}
	a, known := c.attempt(o, "CreateGeneration", "", request.IdempotencyKey), OutcomeNotPlacedByThisCall
	for {
		response, err := c.Generations.CreateGeneration(ctx, request)
		if err == nil {
			a.answered()
			return &Placed{renderOf(response.GetGeneration()), request.IdempotencyKey, response.GetReplayed()}, nil
		}
		again := IsRetryable(err)
		known = ofOrder(err, request.IdempotencyKey, known)
		if !again {
			return nil, err
		}
		if err := a.pause(ctx, 0, err); err != nil { // it may be that of an attempt before the last
			e := baseOf(err)
			e.IdempotencyKey, e.OrderOutcome = request.IdempotencyKey, known
			return nil, err
		}
	}
}

// tellKey hands over a key that Order has made.
func (c *Client) tellKey(hook func(string) error, key string) error {
	if hook != nil {
		return hook(key)
	}
	c.logger.Info("ordering", "idempotency_key", key)
	return nil
}

func (o Order) request() (*easelv1.CreateGenerationRequest, error) {
	inputs := o.InputsJSON
	if inputs == "" {
		text, err := json.Marshal(o.Inputs)
		if err != nil {
			return nil, classed(&Error{Code: codes.InvalidArgument, Message: fmt.Sprintf("the inputs are no JSON: %v", err), OrderOutcome: OutcomeNotPlacedByThisCall})
		}
		if inputs = string(text); o.Inputs == nil {
			inputs = "{}"
		}
	}
	return &easelv1.CreateGenerationRequest{
		ModelId: o.Model, InputsJson: inputs, IdempotencyKey: o.Key, MaxCostCents: o.MaxCostCents, Labels: o.Labels,
	}, nil
}

// ofOrder puts into an error what is known of its order after all attempts so far. Only a durable ledger knows that no
// earlier one has placed it.
func ofOrder(err error, key string, before Outcome) Outcome {
	e := baseOf(err)
	e.IdempotencyKey = key
	if e.OrderOutcome == "" || e.OrderOutcome == OutcomeNotPlacedByThisCall && before == OutcomeUnknown {
		e.OrderOutcome = OutcomeUnknown
	}
	return e.OrderOutcome
}

// Run orders, watches until the render is finished, and gives it: its text, or what to Download. A render that did not
// succeed comes with a *RenderFailedError. Every error has the key: with it the same order again is not paid again.
func (c *Client) Run(ctx context.Context, order Order) (*Render, error) {
	placed, err := c.Order(ctx, order)
	if err != nil {
		return nil, err
	}
	render, err := last(c.watch(ctx, placed.GenerationID, placed.Key))
	if err != nil {
		return cmp.Or(render, placed.Render), err
	}
	if err := render.Failed(); err != nil {
		named(err, render.GenerationID, placed.Key)
		return render, err
	}
	return render, nil
}

// Failed gives a *RenderFailedError of a render that has ended without a result, else nil.
func (r *Render) Failed() error {
	if !r.Terminal || r.State == StateSucceeded {
		return nil
	}
	text := fmt.Sprintf("the render %s is %s", r.GenerationID, r.State)
	if r.FailureMessage != "" {
		text += ": " + r.FailureMessage
	}
	return &RenderFailedError{&Error{Code: codes.FailedPrecondition, Message: text, GenerationID: r.GenerationID}, r}
}
