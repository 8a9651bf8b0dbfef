package content

import (
	"context"

	"github.com/easel-grpc/easel/internal/ledger"
)

// runDelete runs a job that deletes the stored results of a generation and the remains of aborted writes. It keeps
// results that were stored before the ledger was copied or restored, unless an operator has adopted them.
func (r *Results) runDelete(ctx context.Context, job ledger.Job) (ledger.Outcome, error) {
	may, err := r.Ledger.MayDelete(ctx, job.Ref)
	if err != nil || !may {
		return ledger.Outcome{}, err
	}
	timed, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := r.deleteAll(timed, job.Ref); err != nil {
		if job.Attempts == 0 && ctx.Err() == nil {
			r.Logger.WarnContext(ctx, "copy deletion failed; retrying", "generation", job.Ref, "error", err)
		}
		return ledger.Outcome{}, err
	}
	return ledger.Outcome{Change: ledger.CopiesDeleted(job.Ref)}, nil
}

// deleteAll deletes all of the generation's objects that this ledger may delete.
func (r *Results) deleteAll(ctx context.Context, generation string) error {
	stores, err := r.Ledger.Stores(ctx)
	if err != nil {
		return err
	}
	for _, name := range stores.Own() {
		for object, err := range r.Store.List(ctx, objectPrefix(name, generation)) {
			if err == nil {
				err = r.Store.Delete(ctx, object.Name)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Forget waits until all stored results that are marked for deletion have been deleted, or until ctx is done. It returns
// the number of results that are still marked. It does not wait for results from before the ledger was copied or
// restored, unless an operator has adopted them.
func (r *Results) Forget(ctx context.Context) (left int64, err error) {
	for {
		left, own, err := r.Ledger.DoomedCount(context.WithoutCancel(ctx))
		if err != nil || own == 0 || !sleep(ctx, lookInterval) {
			return left, err
		}
	}
}
