package content

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	deleteEvery  = 5 * time.Second
	deleteAtOnce = 50
	forgetLook   = 100 * time.Millisecond

	orphansEvery = 24 * time.Hour // all replicas together
	orphansDuty  = "content orphans"
	orphanAge    = 2 * copyTime // of what nobody can be writing any more
	lookedAtOnce = 500
)

// tidy deletes what is to go from the store, until ctx ends.
func (r *Results) tidy(ctx context.Context) {
	swept := time.Time{}
	for sleep(ctx, deleteEvery) {
		r.deleteDoomed(ctx)
		if time.Since(swept) < orphansEvery {
			continue
		}
		if mine, err := r.Ledger.TakeDuty(ctx, orphansDuty, r.process, orphansEvery); err == nil {
			if swept = time.Now(); mine {
				r.Sweep(ctx, time.Now().Add(-orphanAge))
			}
		}
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
	var deleted, hangs atomic.Bool
	for some := range slices.Chunk(all, copiesAtOnce) {
		var deleting sync.WaitGroup
		for _, c := range some {
			deleting.Go(func() {
				err := r.deleteAll(ctx, c.Generation)
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

// deleteAll deletes each copy of a generation that there is, what writes have left of others, and its row. Nobody writes one.
func (r *Results) deleteAll(ctx context.Context, generation string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := r.deleteObjects(ctx, generation, 0); err != nil {
		return err
	}
	if err := r.Store.Clean(ctx, r.objects(generation), time.Time{}); err != nil {
		return err
	}
	return r.Ledger.ForgetContent(ctx, generation)
}

// deleteObjects deletes the copies of a generation that claims before one have made; of 0 all. A later claim may have begun
// meanwhile: its copy is the one that counts.
func (r *Results) deleteObjects(ctx context.Context, generation string, before int64) error {
	for object, err := range r.Store.List(ctx, r.objects(generation)) {
		claim, _ := strconv.ParseInt(strings.TrimPrefix(object.Name, r.objects(generation)), 10, 64) // see object
		if err == nil && (before == 0 || claim < before) {
			err = r.Store.Delete(ctx, object.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Forget waits until what is to be deleted is, and reports how many copies are left when ctx ends. Without a store here they
// are left to a process that has it.
func (r *Results) Forget(ctx context.Context) (left int64, err error) {
	for {
		if r.Store != nil {
			r.deleteDoomed(ctx)
		}
		if left, err = r.Ledger.DoomedCount(context.WithoutCancel(ctx)); err != nil || left == 0 || !sleep(ctx, forgetLook) {
			return left, err
		}
	}
}

// Sweep deletes what the store has from before a time and the book does not know: copies that do not count, as those of
// processes that have ended in between.
func (r *Results) Sweep(ctx context.Context, before time.Time) {
	if err := r.Store.Clean(ctx, r.Name+"/", before); err != nil {
		r.Logger.WarnContext(ctx, "what writes have left in the store was not all deleted", "error", err)
	}
	deleted, left, err := 0, 0, error(nil)
	for object, failed := range r.orphans(ctx, before) {
		if failed == nil {
			failed = r.Store.Delete(ctx, object.Name)
		}
		if failed == nil {
			deleted++
		} else { // one does not keep the others
			left, err = left+1, failed
		}
	}
	if err != nil {
		r.Logger.WarnContext(ctx, "the store was not swept of all orphans", "left", left, "error", err)
	}
	if deleted > 0 {
		r.Logger.InfoContext(ctx, "copies were deleted that the book does not know", "objects", deleted)
	}
}

// orphans are objects from before a time that no row names.
func (r *Results) orphans(ctx context.Context, before time.Time) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		some := make([]Object, 0, lookedAtOnce)
		look := func() (goOn bool) {
			unknown, err := r.unknown(ctx, some)
			some = some[:0]
			if err != nil {
				return yield(Object{}, err) && false
			}
			for _, object := range unknown {
				if !yield(object, nil) {
					return false
				}
			}
			return true
		}
		for object, err := range r.Store.List(ctx, r.Name+"/") {
			if err != nil {
				yield(Object{}, err)
				return
			}
			if object.Name == r.probe() || !object.Time.Before(before) {
				continue
			}
			if some = append(some, object); len(some) == lookedAtOnce && !look() {
				return
			}
		}
		look()
	}
}

// unknown are those of some objects that no row names.
func (r *Results) unknown(ctx context.Context, some []Object) (unknown []Object, err error) {
	names := make([]string, len(some))
	for n, object := range some {
		names[n] = object.Name
	}
	known, err := r.Ledger.KnownObjects(ctx, names)
	for _, object := range some {
		if err == nil && !known[object.Name] {
			unknown = append(unknown, object)
		}
	}
	return unknown, err
}
