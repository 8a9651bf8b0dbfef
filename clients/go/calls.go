package easel

import (
	"context"
	"iter"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Account returns the balance and the budgets. A service should call it at startup, with a Timeout of 10 s, to detect a wrong
// address, API key or certificate.
func (c *Client) Account(ctx context.Context, options ...CallOption) (*Account, error) {
	ctx, _, cancel := c.begin(ctx, c.readLimits(), options)
	defer cancel()
	response, err := c.Accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
	if err != nil {
		return nil, err
	}
	return accountOf(response.GetAccount()), nil
}

// Models yields the models that the caller can order, from all pages. After an error, the loop ends.
func (c *Client) Models(ctx context.Context, options ...CallOption) iter.Seq2[*Model, error] {
	return pages(ctx, c, options, modelOf, func(ctx context.Context, token string) ([]*easelv1.Model, string, error) {
		page, err := c.Catalog.ListModels(ctx, &easelv1.ListModelsRequest{PageToken: token})
		return page.GetModels(), page.GetNextPageToken(), err
	})
}

// Model returns a model with its input fields.
func (c *Client) Model(ctx context.Context, modelID string, options ...CallOption) (*Model, error) {
	ctx, _, cancel := c.begin(ctx, c.readLimits(), options)
	defer cancel()
	response, err := c.Catalog.GetModel(ctx, &easelv1.GetModelRequest{ModelId: modelID})
	if err != nil {
		return nil, err
	}
	return modelOf(response.GetModel()), nil
}

// Quote returns the current price of an order. It does not place the order.
func (c *Client) Quote(ctx context.Context, order Order, options ...CallOption) (*Quote, error) {
	ctx, _, cancel := c.begin(ctx, c.readLimits(), options)
	defer cancel()
	request, err := order.request()
	if err != nil {
		return nil, err
	}
	response, err := c.Generations.QuoteGeneration(ctx, &easelv1.QuoteGenerationRequest{ModelId: request.GetModelId(), InputsJson: request.GetInputsJson()})
	if err != nil {
		return nil, err
	}
	return quoteOf(response.GetQuote()), nil
}

// Get returns the current state of a render.
func (c *Client) Get(ctx context.Context, generationID string, options ...CallOption) (*Render, error) {
	ctx, _, cancel := c.begin(ctx, c.readLimits(), options)
	defer cancel()
	response, err := c.Generations.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: generationID})
	if err != nil {
		return nil, err
	}
	return renderOf(response.GetGeneration()), nil
}

// Wait waits until a render is finished and returns the render. With UntilSettled, it waits until the cost is final. It
// handles failures in the same way as Watch.
func (c *Client) Wait(ctx context.Context, generationID string, options ...CallOption) (*Render, error) {
	return last(c.Watch(ctx, generationID, options...))
}

// last returns the last state of a watch. If the watch fails, last returns the error and the state before the error, or nil if
// there was no state.
func last(renders iter.Seq2[*Render, error]) (newest *Render, err error) {
	for render, err := range renders {
		if err != nil {
			return newest, err
		}
		newest = render
	}
	return newest, nil
}

// Force allows Delete to delete an unfinished render. The catalog may not refund its price.
func Force() CallOption { return func(c *call) { c.force = true } }

// Delete permanently deletes a render and its result. If the render does not exist, Delete returns nil, so a retry is safe.
func (c *Client) Delete(ctx context.Context, generationID string, options ...CallOption) error {
	ctx, o, cancel := c.begin(ctx, c.readLimits(), options)
	defer cancel()
	o.resend = true
	_, err := c.Generations.DeleteGeneration(ctx, &easelv1.DeleteGenerationRequest{GenerationId: generationID, AllowMissing: true, Force: o.force})
	return err
}
