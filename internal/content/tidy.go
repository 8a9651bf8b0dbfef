package content

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	deleteEvery  = 5 * time.Second
	deleteAtOnce = 50
	forgetLook   = 100 * time.Millisecond

	cleanInterval = 24 * time.Hour
	partAge       = 2 * copyTime // age of a write that no process continues
)

// tidy deletes the copies that the ledger has marked deleted, until ctx is done. It deletes no object that the ledger does not
// know: that may be a copy of another ledger, or of this one before it was restored.
func (r *Results) tidy(ctx context.Context) {
	cleaned := time.Time{}
	for sleep(ctx, deleteEvery) {
		r.deleteDoomed(ctx)
		if time.Since(cleaned) >= cleanInterval {
			cleaned = time.Now()
			r.clean(ctx, cleaned.Add(-partAge))
		}
	}
}

// clean removes the parts of broken writes that started before the given time.
func (r *Results) clean(ctx context.Context, before time.Time) {
	stores, err := r.Ledger.Stores(ctx)
	for _, name := range stores.Own() {
		err = errors.Join(err, r.Store.Clean(ctx, name+"/", before))
	}
	if err != nil {
		r.Logger.WarnContext(ctx, "store cleanup failed", "error", err)
	}
}

// deleteDoomed deletes copies that are not wanted any more. It goes on after one that can't be deleted, while others can.
func (r *Results) deleteDoomed(ctx context.Context) {
	for {
		all, err := r.Ledger.DoomedContents(ctx, deleteAtOnce)
		if err != nil || len(all) == 0 || !r.deleteSome(ctx, all) {
			return
		}
	}
}

// deleteSome deletes copies, some at once, and reports whether one was. Of a store that hangs it waits for those alone.
func (r *Results) deleteSome(ctx context.Context, all []ledger.Content) bool {
	stores, err := r.Ledger.Stores(ctx)
	if err != nil {
		return false
	}
	var deleted, hangs atomic.Bool
	for some := range slices.Chunk(all, copiesAtOnce) {
		var deleting sync.WaitGroup
		for _, c := range some {
			deleting.Go(func() {
				err := r.deleteAll(ctx, stores, c.Generation)
				if err == nil {
					deleted.Store(true)
					return
				}
				r.Logger.WarnContext(ctx, "a copy was not deleted; it is tried again", "generation", c.Generation, "error", err)
				if errors.Is(err, context.DeadlineExceeded) {
					hangs.Store(true)
				}
			})
		}
		if deleting.Wait(); hangs.Load() {
			return false
		}
	}
	return deleted.Load()
}

// deleteAll deletes each copy that this ledger has made of a generation, the remains of broken writes, and the row.
func (r *Results) deleteAll(ctx context.Context, stores ledger.Stores, generation string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	for _, name := range stores.Own() {
		prefix := objectPrefix(name, generation)
		for object, err := range r.Store.List(ctx, prefix) {
			if err == nil {
				err = r.Store.Delete(ctx, object.Name)
			}
			if err != nil {
				return err
			}
		}
		if err := r.Store.Clean(ctx, prefix, time.Time{}); err != nil {
			return err
		}
	}
	return r.Ledger.ForgetContent(ctx, generation)
}

// Forget waits until the copies that are to be deleted are deleted, and returns how many are left when ctx is done. Copies from
// before the ledger was restored are left, and so is every copy if this process has no store.
func (r *Results) Forget(ctx context.Context) (left int64, err error) {
	for {
		if r.Store != nil {
			r.deleteDoomed(ctx)
		}
		left, own, err := r.Ledger.DoomedCount(context.WithoutCancel(ctx))
		if err != nil || own == 0 || !sleep(ctx, forgetLook) {
			return left, err
		}
	}
}
