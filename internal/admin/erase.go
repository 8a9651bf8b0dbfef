package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Erasure is what an operator wants erased: what names content of the orders that it chooses. It is done in steps.
type Erasure struct {
	// Owner, LabelName with LabelValue, and Generation choose the orders: all that are set must match, and one must be.
	Owner      string `json:"owner,omitempty"`
	LabelName  string `json:"label_name,omitempty"`
	LabelValue string `json:"label_value,omitempty"`
	Generation string `json:"generation,omitempty"`
	// Delete deletes the generations in the catalog first, those whose money can't move any more.
	Delete bool `json:"delete,omitempty"`
	// After is [Erased.Next] of the step before.
	After *ledger.Position `json:"after,omitempty"`
}

// Erased is what a step has come to.
type Erased struct {
	// Erased is how many orders had not been erased before, and Deleted how many generations the catalog has no more.
	Erased  int64 `json:"erased"`
	Deleted int   `json:"deleted"`
	// Left are the orders that were not erased, by their generation or else their id, and why; and the log of a file, where
	// it could not be emptied of what was.
	Left map[string]string `json:"left,omitempty"`
	// Next is where the next step goes on; nil: there is none.
	Next *ledger.Position `json:"next,omitempty"`
}

// erasedAtOnce is how many orders a step looks at, with and without their generations.
const (
	erasedAtOnce  = 200
	deletedAtOnce = 10
)

// erase answers POST /orders:erase.
func (o Orders) erase(w http.ResponseWriter, r *http.Request) {
	var asked Erasure
	if err := decode(w, r, &asked); err != nil || asked.Owner+asked.LabelName+asked.Generation == "" {
		http.Error(w, `send {"owner": OWNER}, {"label_name": NAME, "label_value": VALUE} or {"generation": GENERATION}`, http.StatusBadRequest)
		return
	}
	done, err := o.eraseStep(r.Context(), asked, stepTime)
	answer(w, done, err)
}

// stepTime is after which time a step of deleting ends, and deleteTime bounds it: whoever asks waits longer.
const (
	stepTime   = 5 * time.Second
	deleteTime = 10 * time.Second
)

// eraseStep does a step, and looks at no more orders after some time.
func (o Orders) eraseStep(ctx context.Context, asked Erasure, stepTime time.Duration) (done Erased, err error) {
	chosen, most, err := o.chosen(ctx, asked)
	if err != nil {
		return done, err
	}
	free, looked := o.clear(ctx, asked, chosen, stepTime, &done)
	done.Erased, err = o.Ledger.EraseFor(ctx, &ledger.Act{By: byOf(ctx), Action: ledger.ActErase, Became: asked.chosen()}, free...)
	isRead := errors.Is(err, ledger.ErrStillRead)
	if err != nil && !isRead {
		return done, err
	}
	if looked > 0 && (looked < len(chosen) || looked == most) {
		done.Next = &ledger.Position{Time: chosen[looked-1].Time, ID: chosen[looked-1].ID}
	} else if isRead { // else the next step tries again
		done.Left["the -wal of the ledger"] = err.Error()
	}
	if done.Next == nil {
		o.forgetContents(ctx, &done)
	}
	return done, nil
}

// forgetContents waits until the copies of results are deleted that go with what was erased.
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
		done.Left["the store of results"] = fmt.Sprintf("%d copies are still to be deleted, and will be by a server with EASEL_CONTENT_URL when the store answers", left)
		if o.Ledger.IsCopy() {
			done.Left["the store of results"] += "; copies from before the ledger was restored need easel content adopt first"
		}
	}
}

// chosen is what the audit says of the orders that are chosen. The value of a label may name content.
func (e Erasure) chosen() any {
	return struct {
		Owner      string `json:"owner,omitempty"`
		LabelName  string `json:"label_name,omitempty"`
		Generation string `json:"generation,omitempty"`
	}{e.Owner, e.LabelName, e.Generation}
}

// clear finds the orders that may be erased, and deletes their generations first where that is wanted. An order that is
// left keeps what it is chosen by. looked is at how many it has looked.
func (o Orders) clear(ctx context.Context, asked Erasure, chosen []ledger.Order, stepTime time.Duration, done *Erased) (free []ledger.Order, looked int) {
	ctx, cancel := context.WithTimeout(ctx, deleteTime)
	defer cancel()
	done.Left = map[string]string{}
	for end := time.Now().Add(stepTime); looked < len(chosen) && (looked == 0 || time.Now().Before(end)); looked++ {
		one := chosen[looked]
		if hindrance := o.hindrance(ctx, one, asked.Delete); hindrance != "" {
			done.Left[cmp.Or(one.Generation, one.ID)] = hindrance
			continue
		}
		free = append(free, one)
		if asked.Delete && one.Generation != "" {
			done.Deleted++
		}
	}
	return free, looked
}

// chosen are the orders of a step, and how many it may have.
func (o Orders) chosen(ctx context.Context, asked Erasure) (chosen []ledger.Order, most int, err error) {
	most = erasedAtOnce
	if asked.Delete {
		most = deletedAtOnce
	}
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
	chosen, err = o.Ledger.List(ctx, filter, after, most)
	return chosen, most, err
}

// hindrance says why an order can't be erased, after its generation was deleted in the catalog where that is wanted; ""
// where it can.
func (o Orders) hindrance(ctx context.Context, one ledger.Order, deleted bool) string {
	switch {
	case one.IsOpen():
		return "its outcome is unknown: resolve it first"
	case !deleted || one.Generation == "" || one.IsGone():
		return ""
	case !one.Settled:
		return "its money may still move"
	case o.Delete == nil:
		return "callers bring their API keys here, and without one nothing can be deleted"
	}
	if err := o.deleteAudited(ctx, one); err != nil {
		return err.Error()
	}
	return ""
}

// deleteAudited deletes a generation in the catalog, which the audit has before the catalog is asked.
func (o Orders) deleteAudited(ctx context.Context, one ledger.Order) error {
	if err := o.Ledger.Audit(ctx, ledger.Deletion(byOf(ctx), one.Generation, one.Owner, stateOf(one))); err != nil {
		return err
	}
	return o.Delete(ctx, one)
}
