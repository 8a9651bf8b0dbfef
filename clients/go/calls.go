package easel

import (
	"context"
	"iter"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Account returns the account's balance and the caller's budgets. Call it at startup with Timeout(10*time.Second) to detect a
// wrong address, API key or certificate.
func (c *Client) Account(ctx context.Context, options ...CallOption) (*Account, error) {
	ctx, _, cancel := c.applyOptions(ctx, c.readLimits(), options)
	defer cancel()
	response, err := c.Accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
	if err != nil {
		return nil, err
	}
	return accountOf(response.GetAccount()), nil
}

// Models yields the models that the caller can order. It requests them page by page. If a request fails, Models yields the
// error and ends.
func (c *Client) Models(ctx context.Context, options ...CallOption) iter.Seq2[*Model, error] {
	return pages(ctx, c, options, modelOf, func(ctx context.Context, token string) ([]*easelv1.Model, string, error) {
		page, err := c.Catalog.ListModels(ctx, &easelv1.ListModelsRequest{PageToken: token})
		return page.GetModels(), page.GetNextPageToken(), err
	})
}

// Model returns the model with this ID, including its input fields.
func (c *Client) Model(ctx context.Context, modelID string, options ...CallOption) (*Model, error) {
	ctx, _, cancel := c.applyOptions(ctx, c.readLimits(), options)
	defer cancel()
	response, err := c.Catalog.GetModel(ctx, &easelv1.GetModelRequest{ModelId: modelID})
	if err != nil {
		return nil, err
	}
	return modelOf(response.GetModel()), nil
}

// Quote returns the current price of an order. It does not place the order.
func (c *Client) Quote(ctx context.Context, order Order, options ...CallOption) (*Quote, error) {
	ctx, _, cancel := c.applyOptions(ctx, c.readLimits(), options)
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
	ctx, _, cancel := c.applyOptions(ctx, c.readLimits(), options)
	defer cancel()
	response, err := c.Generations.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: generationID})
	if err != nil {
		return nil, err
	}
	return renderOf(response.GetGeneration()), nil
}

// Wait waits until a render is finished and returns the render. With UntilSettled, it waits until the cost is also final. It
// handles failures in the same way as Watch.
func (c *Client) Wait(ctx context.Context, generationID string, options ...CallOption) (*Render, error) {
	return lastState(c.Watch(ctx, generationID, options...))
}

// lastState returns the last state that a watch yields, or nil if the watch yields none. If the watch fails, lastState also
// returns the error.
func lastState(renders iter.Seq2[*Render, error]) (newest *Render, err error) {
	for render, err := range renders {
		if err != nil {
			return newest, err
		}
		newest = render
	}
	return newest, nil
}

// Force allows Delete to delete an unfinished render. The catalog does not always refund the price of such a render.
func Force() CallOption { return func(c *call) { c.force = true } }

// Delete permanently deletes a render and its result. If the render does not exist, Delete returns nil, so a retry is safe.
func (c *Client) Delete(ctx context.Context, generationID string, options ...CallOption) error {
	ctx, o, cancel := c.applyOptions(ctx, c.readLimits(), options)
	defer cancel()
	o.resend = true
	_, err := c.Generations.DeleteGeneration(ctx, &easelv1.DeleteGenerationRequest{GenerationId: generationID, AllowMissing: true, Force: o.force})
	return err
}
