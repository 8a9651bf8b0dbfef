package easel

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Filter selects the renders that match all of its non-empty fields.
type Filter struct {
	Model  string
	States []State // states of the renders; must be empty for WatchMany
	Labels map[string]string
	Owner  string // owner of the renders; only an operator may set it
}

// toMessage converts the filter to the message in the contract. It returns nil if every render matches.
func (f Filter) toMessage() *easelv1.GenerationFilter {
	if f.Model == "" && f.Owner == "" && len(f.States) == 0 && len(f.Labels) == 0 {
		return nil
	}
	message := &easelv1.GenerationFilter{ModelId: f.Model, Labels: f.Labels, Owner: f.Owner}
	for _, state := range f.States {
		message.States = append(message.States, easelv1.State(state))
	}
	return message
}

// List yields the matching renders, most recently ordered first. It requests them page by page. If a request fails, List yields
// the error and ends.
func (c *Client) List(ctx context.Context, filter Filter, options ...CallOption) iter.Seq2[*Render, error] {
	return pages(ctx, c, options, renderOf, func(ctx context.Context, token string) ([]*easelv1.Generation, string, error) {
		page, err := c.Generations.ListGenerations(ctx, &easelv1.ListGenerationsRequest{Filter: filter.toMessage(), PageToken: token})
		return page.GetGenerations(), page.GetNextPageToken(), err
	})
}

// pages requests one page after another and yields the values on each page. Limits in the options, such as Timeout, apply to
// each page separately.
func pages[M, V any](ctx context.Context, c *Client, options []CallOption, value func(M) V, read func(ctx context.Context, token string) ([]M, string, error)) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var none V
		for token, more := "", true; more; more = token != "" {
			var messages []M
			var err error
			ctx, _, cancel := c.applyOptions(ctx, c.readLimits(), options)
			messages, token, err = read(ctx, token)
			cancel()
			if err != nil {
				yield(none, err)
				return
			}
			for _, message := range messages {
				if !yield(value(message), nil) {
					return
				}
			}
		}
	}
}

// Dimension is a property by which Usage groups orders.
type Dimension = easelv1.UsageDimension

// The dimensions.
const (
	ByDay    = easelv1.UsageDimension_USAGE_DIMENSION_DAY
	ByOwner  = easelv1.UsageDimension_USAGE_DIMENSION_OWNER
	ByCaller = easelv1.UsageDimension_USAGE_DIMENSION_CALLER
	ByModel  = easelv1.UsageDimension_USAGE_DIMENSION_MODEL
	ByLabel  = easelv1.UsageDimension_USAGE_DIMENSION_LABEL
)

// UsageQuery selects the orders that Usage counts, and the dimensions by which it groups them. If Start is zero, the period
// starts with the first order. If End is zero, the period ends now.
type UsageQuery struct {
	Start, End time.Time
	By         []Dimension
	Label      string // name of the label; used only if By contains ByLabel
}

// Usage returns the number and the cost of orders, with one row for each combination of values of the dimensions in query.By.
func (c *Client) Usage(ctx context.Context, query UsageQuery, options ...CallOption) (rows []*UsageRow, err error) {
	for row, err := range pages(ctx, c, options, usageRowOf, func(ctx context.Context, token string) ([]*easelv1.UsageRow, string, error) {
		page, err := c.Accounts.ListUsage(ctx, &easelv1.ListUsageRequest{
			StartTime: timestampOf(query.Start), EndTime: timestampOf(query.End), GroupBy: query.By, LabelName: query.Label, PageSize: 1000, PageToken: token,
		})
		return page.GetRows(), page.GetNextPageToken(), err
	}) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func timestampOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
