package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Erasure is the request for one step of an erasure. It selects the orders whose content is removed from the ledger.
type Erasure struct {
	// Owner, LabelName with LabelValue, and Generation are conditions. At least one must be set. An order must match all
	// conditions that are set.
	Owner      string `json:"owner,omitempty"`
	LabelName  string `json:"label_name,omitempty"`
	LabelValue string `json:"label_value,omitempty"`
	Generation string `json:"generation,omitempty"`
	// After is [Erased.Next] from the previous step. It is nil in the first step.
	After *ledger.Position `json:"after,omitempty"`
}

// Erased is the result of one step of an erasure.
type Erased struct {
	// Erased is the number of orders that this step has erased.
	Erased int64 `json:"erased"`
	// Left maps each order whose content was not erased to the reason. The key is the generation ID or, without a generation,
	// the order ID. If copies of erased results may remain, the key "the store of results" has the reason.
	Left map[string]string `json:"left,omitempty"`
	// Next is the position at which the next step starts. It is nil after the last step.
	Next *ledger.Position `json:"next,omitempty"`
}

// eraseBatchSize is the maximum number of orders in a step.
const eraseBatchSize = 200

// serveErasure serves POST /orders:erase. It erases at most [eraseBatchSize] orders.
func (o Orders) serveErasure(ctx context.Context, asked Erasure) (Erased, error) {
	done := Erased{Left: map[string]string{}}
	if asked.Owner+asked.LabelName+asked.Generation == "" {
		return done, newInvalidMember(`send {"owner": OWNER}, {"label_name": NAME, "label_value": VALUE} or {"generation": GENERATION}`)
	}
	chosen, err := o.chosenOrders(ctx, asked)
	if err != nil {
		return done, err
	}
	free := slices.DeleteFunc(slices.Clone(chosen), ledger.Order.IsOpen)
	for _, one := range chosen {
		if one.IsOpen() {
			done.Left[cmp.Or(one.Generation, one.ID)] = "its outcome is unknown: resolve it first"
		}
	}
	audited := Erasure{Owner: asked.Owner, LabelName: asked.LabelName, Generation: asked.Generation} // the audit log omits the label's value, because the value may be content
	done.Erased, err = o.Ledger.EraseFor(ctx, &ledger.Act{By: byOf(ctx), Action: ledger.ActErase, Became: audited}, free...)
	if err != nil {
		return done, err
	}
	if last := len(chosen) - 1; last+1 == eraseBatchSize {
		done.Next = &ledger.Position{Time: chosen[last].Time, ID: chosen[last].ID}
		return done, nil
	}
	o.forgetContents(ctx, &done)
	return done, nil
}

// deleteTime is the maximum time that an operator's request waits for copies to be deleted.
const deleteTime = 10 * time.Second

// forgetContents waits up to [deleteTime] for the copies of erased results to be deleted. If copies remain, it adds the reason
// to done.Left.
func (o Orders) forgetContents(ctx context.Context, done *Erased) {
	if o.Contents == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTime)
	defer cancel()
	left, err := o.Contents.Forget(ctx)
	switch {
	case err != nil:
		done.Left["the store of results"] = err.Error()
	case left > 0:
		done.Left["the store of results"] = fmt.Sprintf("%d copies are not deleted yet; a server with EASEL_CONTENT_URL deletes them when the store is available", left)
		if o.Ledger.IsCopy() {
			done.Left["the store of results"] += "; copies from before the ledger was restored need easel content adopt first"
		}
	}
}

// chosenOrders returns the next orders that match the conditions in asked, at most [eraseBatchSize].
func (o Orders) chosenOrders(ctx context.Context, asked Erasure) ([]ledger.Order, error) {
	filter, after := ledger.Filter{AnyState: true, Generation: asked.Generation}, ledger.Position{}
	if asked.Owner != "" {
		filter.Owner = &asked.Owner
	}
	if asked.LabelName != "" {
		filter.Labels = map[string]string{asked.LabelName: asked.LabelValue}
	}
	if asked.After != nil {
		after = *asked.After
	}
	return o.Ledger.List(ctx, filter, after, eraseBatchSize)
}
