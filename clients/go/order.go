package easel

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Order describes an order for one render.
type Order struct {
	Model      string
	Inputs     map[string]any
	InputsJSON string // inputs as a JSON object, which is sent unchanged; if it is set, Inputs is ignored

	// Key is the idempotency key. If you send the same order again with the same key, you get the same render and are not
	// charged again. Store the key before you order. If Key is empty, Client.Order creates a key. Before it sends the order, it
	// passes the created key to OnKey, or logs the key if OnKey is nil.
	Key   string
	OnKey func(key string) error // called with a created key; if it returns an error, the order is not sent

	MaxCostCents *int64    // maximum price in cents; nil means no limit
	Expire       time.Time // time after which the order is not sent to the catalog, by the clock of the server's ledger; zero means no limit
	Labels       map[string]string
}

// Cents returns a pointer to n, for Order.MaxCostCents.
func Cents(n int64) *int64 { return &n }

// Placed is an accepted order.
type Placed struct {
	*Render
	Key      string
	Replayed bool // whether another call had already placed the order, so that this call sent nothing to the catalog
}

// Order places an order, and retries with the same key until the outcome is known. If it returns an error whose OrderOutcome is
// OutcomeUnknown, the order may exist. Keep the key and send the order again with the same key.
func (c *Client) Order(ctx context.Context, order Order, options ...CallOption) (*Placed, error) {
	ctx, o, cancel := c.applyOptions(ctx, orderLimits, options)
	defer cancel()
	request, err := order.request()
	if err != nil {
		return nil, err
	}
	if request.IdempotencyKey == "" {
		request.IdempotencyKey = rand.Text()
		if err := c.tellKey(order.OnKey, request.IdempotencyKey); err != nil {
			return nil, fmt.Errorf("easel: order not sent, because OnKey failed: %w", err)
		}
	}
	a, known := c.attempt(o, "CreateGeneration", "", request.IdempotencyKey), OutcomeNotPlacedByThisCall
	for {
		response, err := c.Generations.CreateGeneration(ctx, request)
		if err == nil {
			a.recordSuccess()
			return &Placed{renderOf(response.GetGeneration()), request.IdempotencyKey, response.GetReplayed()}, nil
		}
		again := IsRetryable(err)
		known = recordOutcome(err, request.IdempotencyKey, known)
		if !again {
			return nil, err
		}
		if err := a.pause(ctx, 0, err); err != nil { // err may come from an earlier attempt and contain an outdated outcome
			e := baseOf(err)
			e.IdempotencyKey, e.OrderOutcome = request.IdempotencyKey, known
			return nil, err
		}
	}
}

// tellKey passes a key that Order created to onKey, or logs the key if onKey is nil.
func (c *Client) tellKey(onKey func(string) error, key string) error {
	if onKey != nil {
		return onKey(key)
	}
	c.logger.Info("ordering", "idempotency_key", key)
	return nil
}

func (o Order) request() (*easelv1.CreateGenerationRequest, error) {
	inputs := o.InputsJSON
	if inputs == "" {
		text, err := json.Marshal(o.Inputs)
		if err != nil {
			return nil, wrapInClass(&Error{Code: codes.InvalidArgument, Message: fmt.Sprintf("inputs cannot be encoded as JSON: %v", err), OrderOutcome: OutcomeNotPlacedByThisCall})
		}
		if inputs = string(text); o.Inputs == nil {
			inputs = "{}"
		}
	}
	return &easelv1.CreateGenerationRequest{
		ModelId: o.Model, InputsJson: inputs, IdempotencyKey: o.Key, MaxCostCents: o.MaxCostCents, ExpireTime: timestampOf(o.Expire), Labels: o.Labels,
	}, nil
}

// recordOutcome sets the idempotency key and the outcome in err, which is the error of an attempt, and returns the outcome. The
// outcome covers all attempts so far. If it was unknown before this attempt, it remains unknown unless the server reports
// OutcomeNotPlaced.
func recordOutcome(err error, key string, earlierOutcome Outcome) Outcome {
	e := baseOf(err)
	e.IdempotencyKey = key
	if e.OrderOutcome == "" || e.OrderOutcome == OutcomeNotPlacedByThisCall && earlierOutcome == OutcomeUnknown {
		e.OrderOutcome = OutcomeUnknown
	}
	return e.OrderOutcome
}

// Run places an order, waits until the render is finished, and returns the render. If the render did not succeed, the error is
// a *RenderFailedError. Once the order has been sent, every error contains the idempotency key. If you send the same order again
// with this key, you are not charged again.
func (c *Client) Run(ctx context.Context, order Order) (*Render, error) {
	placed, err := c.Order(ctx, order)
	if err != nil {
		return nil, err
	}
	render, err := lastState(c.watch(ctx, placed.GenerationID, placed.Key))
	if err != nil {
		return cmp.Or(render, placed.Render), err
	}
	if err := render.Failed(); err != nil {
		setOrder(err, render.GenerationID, placed.Key)
		return render, err
	}
	return render, nil
}

// Failed returns a *RenderFailedError if the render is finished but did not succeed. Otherwise, it returns nil.
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
