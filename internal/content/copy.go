package content

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	slots = 8 // maximum number of concurrent copies, and of concurrent deletions; it also limits memory, because each upload to S3 buffers one part

	copyTimeout   = time.Hour // timeout of one attempt to copy a result
	deleteTimeout = time.Minute
	tryTime       = 7 * 24 * time.Hour // age of a copy job after which a failed attempt is not retried

	// The delay before a retry is the age of the job divided by retryShare. It is at least minRetry and at most maxRetry.
	retryShare         = 2
	minRetry, maxRetry = time.Second, 15 * time.Minute

	textType = "text/plain; charset=utf-8"
)

// Kinds returns the kinds of jobs that copy results and delete copies. It returns nil if there is no store.
func (r *Results) Kinds() []jobs.Kind {
	if r.Store == nil {
		return nil
	}
	return []jobs.Kind{
		{Name: ledger.CopyJob, Slots: slots, Catalog: r.Catalog, RetryShare: retryShare, MinRetry: minRetry, MaxRetry: maxRetry, Do: r.runCopy},
		{Name: ledger.DeleteJob, Slots: slots, RetryShare: retryShare, MinRetry: minRetry, MaxRetry: maxRetry, Do: r.runDelete},
	}
}

// runCopy runs a job that copies a result.
func (r *Results) runCopy(ctx context.Context, job ledger.Job) (ledger.Outcome, error) {
	row, found, err := r.Ledger.Content(ctx, job.Ref)
	if err != nil || !found || row.State != ledger.ContentWaiting {
		return ledger.Outcome{}, err
	}
	err = r.transferResult(ctx, job, row)
	switch {
	case err == nil:
		return ledger.Outcome{Ended: true}, nil
	case ctx.Err() != nil, errors.Is(err, ledger.ErrLeaseLost): // the process is stopping, or another process has leased the job
		return ledger.Outcome{}, err
	}
	r.Counts.Failures.Add(1)
	if job.Age > tryTime {
		r.Logger.ErrorContext(ctx, "result copy abandoned", "generation", row.Generation, "owner", row.Owner, "error", err, "hint", "easel content fetch tries again")
		return ledger.Outcome{Change: ledger.CopyAbandoned(job, err.Error())}, nil
	}
	if job.Attempts == 0 {
		r.Logger.WarnContext(ctx, "result copy failed; retrying", "generation", row.Generation, "owner", row.Owner, "error", err)
	}
	return ledger.Outcome{}, err
}

// transferResult copies a result and records the copy. Then it deletes the objects of earlier copies. If it is certain that the
// new copy was not recorded, it deletes the new object instead.
func (r *Results) transferResult(ctx context.Context, job ledger.Job, row ledger.Content) error {
	made, err := r.writeCopy(ctx, row, fmt.Sprintf("%s%d-%d-%s", objectPrefix(r.Name, row.Generation), job.ID, job.Fence, rand.Text()))
	if err == nil {
		err = r.Ledger.ContentCopied(context.WithoutCancel(ctx), job, made)
	}
	_, doubt := errors.AsType[*ledger.Doubt](err)
	switch {
	case err == nil:
		r.Counts.Copied.Add(1)
		r.Counts.Bytes.Add(made.Size)
		if job.Fence > 1 || row.Object != "" {
			r.dropEarlier(ctx, job)
		}
	case !doubt && made.Object != "":
		r.deleteObject(ctx, made.Object)
	}
	return err
}

// writeCopy reads a result from the catalog and writes it to the store. made.Object is empty if the write did not start.
func (r *Results) writeCopy(ctx context.Context, row ledger.Content, object string) (made ledger.StoredCopy, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	if _, err := r.Store.Size(ctx, object); ignoreMissing(err) != nil { // if the store does not respond, no request is sent to the catalog
		return made, err
	}
	result, err := r.openDownload(ctx, row)
	if err != nil {
		return made, err
	}
	defer func() { _ = result.Body.Close() }() // an error does not matter, because the body is only read
	sum, size := sha256.New(), int64(-1)
	if result.Size != nil {
		size = *result.Size
	}
	made.Object, made.ContentType = object, result.ContentType
	if made.Size, err = r.Store.Put(ctx, object, io.TeeReader(result.Body, sum), size); err == nil {
		err = result.checkSize(made.Size)
	}
	made.SHA256 = hex.EncodeToString(sum.Sum(nil))
	made.Etag = cmp.Or(result.Etag, ownEtag(made.SHA256))
	return made, err
}

// dropEarlier deletes the objects that earlier runs of copy jobs wrote for a generation. It also deletes the remains of their
// aborted writes. It keeps the objects of later runs.
func (r *Results) dropEarlier(ctx context.Context, job ledger.Job) {
	prefix := objectPrefix(r.Name, job.Ref)
	for object, err := range r.Store.List(ctx, prefix) {
		var id, fence int64
		if _, unknown := fmt.Sscanf(strings.TrimPrefix(object.Name, prefix), "%d-%d-", &id, &fence); err != nil || unknown != nil {
			return
		}
		if id < job.ID || id == job.ID && fence < job.Fence {
			r.deleteObject(ctx, object.Name)
		}
	}
}

// deleteObject deletes an object to which no row of the ledger refers. If the deletion fails, the object remains until all
// copies of its generation are deleted, and [Results.Verify] reports the object.
func (r *Results) deleteObject(ctx context.Context, object string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	_ = r.Store.Delete(ctx, object)
}

// objectPrefix returns the common prefix of the names of a generation's objects. storePrefix is the prefix of the names of all
// of the ledger's objects. In each object's name, the generation's prefix is followed by the job's ID, the job's fence and a
// random string, so that no object replaces another one.
func objectPrefix(storePrefix, generation string) string {
	sum := sha256.Sum256([]byte(generation))
	name := hex.EncodeToString(sum[:])
	return storePrefix + "/" + name[:2] + "/" + name + "-"
}
